"""Draws RUN/figures/gigabit-100ms.svg, its data and the README's table: `figure.py RUN`.

Theory: 1448 bytes of payload in each frame of 1518 are the most that the link carries, and a
connection has at most its send buffer on its way in each round trip: min(rate, buffer / RTT).
The script holds, in every run, what no noise of the machine can change: all bytes arrived, no
flow was faster than that, and the least round trip is the link's delay. In a run at full size that
is not broken it holds the paper's finding too: an emulated gigabit link of 100 ms carries a gigabit
where buffers allow it.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

RATE, PAYLOAD, FRAME = 1e9, 1448, 1518
DELAY_S, SLACK_S = 0.1, 0.002  # the link's, and what the least of many round trips may have beside
BUFFERS = {"buffer-4": ("s4", 4e6), "buffer-16": ("s16", 16e6), "buffer-64": ("s64", 64e6)}
FILLED = 0.9  # of the link's payload, by a flow whose buffer is larger than path and queue
SETTLED_S, SHORT_S = 5, 10  # the end of a flow by which it is judged, and flows too short for that
BIN_S = 0.25


def results(run, name):
    return json.loads((run / "logs" / f"{name}.out").read_text())["flows"]


def series(run, name):
    """What the kernel said of a connection: (time, window, round trip, bytes acknowledged)."""
    number = lambda text: float(text) if text else None
    host = BUFFERS[name][0]
    rows = run_data.rows(run / "hosts" / host / f"{name}.csv")
    return [[number(str(row[field])) for field in ("t_s", "cwnd", "rtt_s", "bytes_acked")] for row in rows]


def rates(points):
    """Mbit/s of payload acknowledged, in bins."""
    found, (begin, acked) = [], (points[0][0], points[0][3])
    for t, _, _, bytes_acked in points:
        if t - begin >= BIN_S:
            found.append(((t + begin) / 2, (bytes_acked - acked) * 8e-6 / (t - begin)))
            begin, acked = t, bytes_acked
    return found


def settled(points):
    """The same of a flow's last seconds; None of one that was too short to settle."""
    end = points[-1][0]
    late = [point for point in points if point[0] >= end - SETTLED_S]
    if end < SHORT_S or len(late) < 2:
        return None
    return (late[-1][3] - late[0][3]) * 8e-6 / (late[-1][0] - late[0][0])


def hold(held, flow, buffer, after):
    """What holds of every flow, and of one that has settled in a run that is not broken."""
    title = f"{buffer / 1e6:.0f} MB"
    least = flow["rtt_ns"]["min"] / 1e6
    held.expect(f"{title}: least round trip, ms", "100", least, DELAY_S * 1e3, (DELAY_S + SLACK_S) * 1e3, always=True)
    link = RATE / 1e6 * PAYLOAD / FRAME
    most = min(link, buffer * 8e-6 / DELAY_S)
    held.expect(f"{title}: goodput, Mbit/s", "", flow["goodput_bps"] / 1e6, high=most, always=True)
    if after is None:
        return
    held.expect(f"{title}: goodput of the last {SETTLED_S} s, Mbit/s", "", after, high=most * 1.02)
    if buffer > 4 * RATE / 8 * DELAY_S:
        held.expect(f"{title}: the same, of a buffer larger than path and queue", "941 (iperf over its bare network cards)",
                    after, FILLED * link)  # fmt: skip


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    held = findings.Findings(run, full=whole["verdict"]["state"] != "broken")
    arrived = {flow["from"]: flow["bytes"] for flow in results(run, "sink")}
    link = RATE / 1e6 * PAYLOAD / FRAME
    speed = chart.Panel("payload acknowledged", "time (s)", "Mbit/s", y_range=(0, 1100))
    window = chart.Panel("congestion window", "time (s)", "segments")
    trips = chart.Panel("round trip (smoothed)", "time (s)", "ms")
    data, table = [], []
    for colour, (name, (_, buffer)) in enumerate(BUFFERS.items()):
        (flow,), points = results(run, name), series(run, name)
        after = settled(points)
        here = arrived.get(flow["from"])
        run_data.claim(here == flow["bytes"], f"{name}: {flow['bytes']} bytes sent, {here} arrived")
        hold(held, flow, buffer, after)
        title = f"{buffer / 1e6:.0f} MB"
        thin = lambda line: run_data.thin(line)
        speed.line(title, thin(rates(points)), colour)
        window.line(title, thin([(t, cwnd) for t, cwnd, _, _ in points]), colour)
        trips.line(title, thin([(t, rtt * 1e3) for t, _, rtt, _ in points if rtt]), colour)
        least = flow["rtt_ns"]["min"] / 1e6
        bound = min(link, buffer * 8e-6 / DELAY_S)
        table.append([title, bound, flow["goodput_bps"] / 1e6, after, flow["retransmissions"], f"{least:.2f}"])
        data += [[name, *point] for point in points]
    last = max(point[1] for point in data)
    speed.line("the link's payload", [(0, link), (last, link)], 3, dashed=True)
    full = RATE / 8 * DELAY_S / FRAME
    window.line("path full", [(0, full), (last, full)], 3, dashed=True)
    figure = run / "figures" / "gigabit-100ms"
    chart.save(figure.with_suffix(".svg"), "The kernel's TCP over 1 Gbit/s at 100 ms", [[speed, window, trips]])
    chart.save_csv(figure.with_suffix(".csv"), ["flow", "t_s", "cwnd", "rtt_s", "bytes_acked"], data)
    names = ["send buffer", "at most (Mbit/s)", "goodput (Mbit/s)", "last 5 s (Mbit/s)", "sent again", "least RTT (ms)"]
    chart.save_table(figure.with_suffix(".md"), names, table)
    held.settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
