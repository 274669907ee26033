"""Draws RUN/figures/tcp-models.svg, its data and the README's table: `figure.py RUN`.

Theory: the kernel and the model are given the same link, so their windows should have the same
shape and their payload the same rate. Times at which queues overflow drift apart over a run,
since the kernel's hosts have some microseconds of their own. No paper is behind this figure: where others have
a paper's value, its findings have the kernel's, or theory's. Where reference.py has run the
kernel, the script claims that its sinks have got every byte that senders sent.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import flows
import run_data


NAMES = {"reno": "Reno", "cubic": "CUBIC", "bbr": "BBR"}
# Mbit/s of payload in frames of 1518 bytes at 100 Mbit/s.
MOST = 100 * 1448 / 1518


def sent_and_arrived(run):
    """Claims that all bytes of the kernel's flows arrived."""
    log = lambda name: json.loads((run / "kernel" / "logs" / f"{name}.out").read_text())["flows"]
    arrived = {flow["from"]: flow["bytes"] for sink in ("sink@b", "sink@d") for flow in log(sink)}
    for queue, name in flows.kernel(run):
        for flow in log(f"{name}-{queue}"):
            here = arrived.get(flow["from"])
            run_data.claim(here == flow["bytes"], f"{flow['name']}: {flow['bytes']} bytes sent, {here} arrived")


def mbps(rows):
    """Payload acknowledged over the time of a kernel's series, in Mbit/s."""
    seconds = rows[-1]["t_s"] or 1.0
    return rows[-1]["bytes_acked"] * 8e-6 / seconds


def hold(run, model, kernel, resent):
    """The model against theory, and against the kernel where that has run faithfully enough to be asked."""
    held = findings.Findings(run)
    for name in flows.ALGORITHMS:
        long = flows.QUEUES[0][0]
        held.expect(f"{NAMES[name]}, queue of {long}: goodput over the most there is", "theory: 1, less the start",
                    (name, long) in model and model[name, long] / MOST or None, 0.95, 1)  # fmt: skip
    small = lambda name: model.get((name, flows.QUEUES[1][0]))
    over = lambda one, other: small(one) and small(other) and small(one) / small(other)
    held.expect("queue of 41: goodput of CUBIC over that of Reno", "theory: above 1", over("cubic", "reno"), 1.02, 1.2)
    held.expect("queue of 41: goodput of BBR over that of Reno", "theory: above 1", over("bbr", "reno"), 1.02, 1.2)
    held.expect("queue of 41: sent again by BBR over CUBIC", "theory: above 1",
                resent.get(("cubic", 41)) and resent.get(("bbr", 41), 0) / resent["cubic", 41], 5)  # fmt: skip
    verdict = run / "kernel" / "summary.json"
    broken = verdict.exists() and run_data.summary(run / "kernel")["verdict"]["state"] == "broken"
    for (name, queue), mbps in kernel.items():
        if not broken:
            held.expect(f"{NAMES[name]}, queue of {queue}: goodput of the model over the kernel's", f"the kernel: {mbps:.1f} Mbit/s",
                        model[name, queue] / mbps, 0.9, 1.1)  # fmt: skip
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    modelled, windows = run_data.flows(whole), run_data.windows(run)
    paths = flows.kernel(run)
    if paths:
        run_data.summary(run / "kernel")
        sent_and_arrived(run)
    data, grid, table = [], [], []
    model, resent, beside = {}, {}, {}
    for queue, _, words in flows.QUEUES:
        row = []
        for name in flows.ALGORITHMS:
            flow = modelled.get(f"{name}-{queue}")
            if not flow:
                continue
            panel = chart.Panel(f"{NAMES[name]}, queue of {queue} packets ({words})", "time (s)", "window (packets)")
            if (queue, name) in paths and (rows := flows.series(paths[queue, name])):
                points = [(one["t_s"], one["cwnd"]) for one in rows]
                beside[name, queue] = mbps(rows)
                panel.line(f"kernel, {beside[name, queue]:.1f} Mbit/s", points, 0)
                data += [[queue, name, "kernel", f"{t:.3f}", int(window)] for t, window in points]
            begin, end = flow["start_s"], flow["finish_s"] or whole["simulated_s"]
            model[name, queue], resent[name, queue] = flow["goodput_bps"] / 1e6, flow["retransmissions"]
            points = [(t - begin, window) for t, window, _ in windows[flow["name"]]]
            panel.line(f"model, {model[name, queue]:.1f} Mbit/s", run_data.thin(run_data.steps(points, end - begin)), 1)
            data += [[queue, name, "model", f"{t:.3f}", window] for t, window in points]
            table.append([NAMES[name], queue, model[name, queue], resent[name, queue]])
            row.append(panel)
        if row:
            grid.append(row)
    run_data.claim(table, "no flow has run")
    figure = run / "figures" / "tcp-models"
    chart.save_csv(figure.with_suffix(".csv"), ["queue", "congestion", "who", "t_s", "cwnd"], data)
    chart.save_table(figure.with_suffix(".md"), ["congestion", "queue", "model (Mbit/s)", "sent again"], table)
    if beside:
        rows = [[NAMES[name], queue, kernel, model[name, queue]] for (name, queue), kernel in beside.items()]
        chart.save_table(figure.with_name("kernel.md"), ["congestion", "queue", "kernel (Mbit/s)", "model (Mbit/s)"], rows)
    chart.save(figure.with_suffix(".svg"), "TCP windows: the kernel and the model", grid)
    hold(run, model, beside, resent).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
