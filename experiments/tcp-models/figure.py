"""Draws RUN/figures/tcp-models.svg, its data and the README's table: `figure.py RUN`.

Theory: the kernel and the model are given the same link, so their windows should have the same
shape and their payload the same rate. Times at which queues overflow drift apart over a run,
since the kernel's hosts have some microseconds of their own. Where reference.py has run the
kernel, the script claims that its sinks have got every byte that senders sent.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import flows
import run_data


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


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    modelled, windows = run_data.flows(whole), run_data.windows(run)
    paths = flows.kernel(run)
    if paths:
        run_data.summary(run / "kernel")
        sent_and_arrived(run)
    data, grid, table = [], [], []
    for queue, _, words in flows.QUEUES:
        row = []
        for name in flows.ALGORITHMS:
            flow = modelled.get(f"{name}-{queue}")
            if not flow:
                continue
            panel = chart.Panel(f"{name}, queue of {queue} packets ({words})", "time (s)", "window (packets)")
            line = [name, queue, None, None]
            if (queue, name) in paths and (rows := flows.series(paths[queue, name])):
                points = [(one["t_s"], one["cwnd"]) for one in rows]
                line[2] = mbps(rows)
                panel.line(f"kernel, {line[2]:.1f} Mbit/s", points, 0)
                data += [[queue, name, "kernel", f"{t:.3f}", int(window)] for t, window in points]
            begin, end = flow["start_s"], flow["finish_s"] or whole["simulated_s"]
            line[3] = flow["goodput_bps"] / 1e6
            points = [(t - begin, window) for t, window, _ in windows[flow["name"]]]
            panel.line(f"model, {line[3]:.1f} Mbit/s", run_data.thin(run_data.steps(points, end - begin)), 1)
            data += [[queue, name, "model", f"{t:.3f}", window] for t, window in points]
            table.append([*line, flow["retransmissions"]])
            row.append(panel)
        if row:
            grid.append(row)
    run_data.claim(table, "no flow has run")
    figure = run / "figures" / "tcp-models"
    chart.save_csv(figure.with_suffix(".csv"), ["queue", "congestion", "who", "t_s", "cwnd"], data)
    names = ["congestion", "queue", "kernel (Mbit/s)", "model (Mbit/s)", "model: sent again"]
    chart.save_table(figure.with_suffix(".md"), names, table)
    chart.save(figure.with_suffix(".svg"), "TCP windows: the kernel and the model", grid)
    print(figure.with_suffix(".svg"))


main()
