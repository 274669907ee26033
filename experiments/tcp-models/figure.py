"""Draws RUN/figures/tcp-models.svg and writes its data beside it: `figure.py RUN`.

Theory: the kernel and the model are given the same link, so their windows should have the same
shape and their payload the same rate. Times at which queues overflow drift apart over a run,
since the kernel's hosts have some microseconds of their own. It claims that the sinks have got
every byte that senders sent, and draws the model where reference.py has run it.
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
    """Claims that all bytes arrived."""
    log = lambda name: json.loads((run / "logs" / f"{name}.out").read_text())["flows"]
    arrived = {flow["from"]: flow["bytes"] for sink in ("sink@b", "sink@d") for flow in log(sink)}
    for queue, name in flows.kernel(run):
        for flow in log(f"{name}-{queue}"):
            here = arrived.get(flow["from"])
            run_data.claim(here == flow["bytes"], f"{flow['name']}: {flow['bytes']} bytes sent, {here} arrived")


def mbps(rows):
    """Payload acknowledged over the time of a series, in Mbit/s."""
    seconds = rows[-1]["t_s"] or 1.0
    return rows[-1]["bytes_acked"] * 8e-6 / seconds


def main():
    run = pathlib.Path(sys.argv[1])
    run_data.summary(run)
    sent_and_arrived(run)
    paths = flows.kernel(run)
    run_data.claim(paths, "no flow has left a series")
    data, grid = [], []
    for queue, _, words in flows.QUEUES:
        row = []
        for name in flows.ALGORITHMS:
            if (queue, name) not in paths:
                continue
            both = [("kernel", paths[queue, name]), ("model", run / "model" / f"{name}-{queue}.csv")]
            panel = chart.Panel(f"{name}, queue of {queue} packets ({words})", "time (s)", "window (packets)")
            for colour, (who, path) in enumerate(both):
                rows = flows.series(path) if path.exists() else []
                if not rows:
                    continue
                points = [(one["t_s"], one["cwnd"]) for one in rows]
                panel.line(f"{who}, {mbps(rows):.1f} Mbit/s", points, colour)
                data += [[queue, name, who, f"{t:.3f}", int(window)] for t, window in points]
            row.append(panel)
        if row:
            grid.append(row)
    figure = run / "figures" / "tcp-models"
    chart.save_csv(figure.with_suffix(".csv"), ["queue", "congestion", "who", "t_s", "cwnd"], data)
    chart.save(figure.with_suffix(".svg"), "TCP windows: the kernel and the model", grid)
    print(figure.with_suffix(".svg"))


main()
