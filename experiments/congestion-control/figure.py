"""Draws RUN/figures/congestion-control.svg, its data and the README's table: `figure.py RUN`.

The paper shows four windows and says that round trip and socket buffer have an impact: what that is here is
held in bands. Theory: 1448 bytes of payload in each frame of 1518 are the most that a path carries. A flow whose
send buffer is no larger than what its path holds (the bandwidth-delay product and the queue)
loses nothing, whatever its congestion control.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

ALGORITHMS = {"reno": "Reno", "bic": "BIC", "cubic": "CUBIC", "bbr": "BBR"}
COLOURS = [0, 1, 2, 4]
# Round trip in ms, send buffer in MB, and where the flow's sink is.
CASES = [(10, 16), (10, 25), (100, 16), (100, 25)]
RATE, PAYLOAD, FRAME = 1e9, 1448, 1518
QUEUE = {10: 600, 100: 6000}


def bottleneck(round_trip, buffer, algorithm):
    """The pipe that a flow has for itself."""
    side = "near" if round_trip == 10 else "far"
    number = list(ALGORITHMS).index(algorithm) + (4 if buffer == 25 else 0)
    return f"{side}-g{number}>{side}-d{number}"


def held(round_trip):
    """Payload that a path holds, in bytes."""
    return (RATE / 8 * round_trip / 1000 / FRAME + QUEUE[round_trip]) * PAYLOAD


def hold(run, goodput, mean_rtt):
    """What the paper found, and what follows from how the four controls work."""
    held = findings.Findings(run)
    ratio = lambda one, other: goodput[one] / goodput[other]
    held.expect("Reno, 16 MB: goodput at 10 ms over that at 100 ms", "Figure 8: the round trip has an impact",
                ratio(("reno", 10, 16), ("reno", 100, 16)), 1.05, 1.3)  # fmt: skip
    held.expect("Reno, 100 ms: goodput with 25 MB over that with 16 MB", "Figure 8: the buffer has an impact",
                ratio(("reno", 100, 25), ("reno", 100, 16)), 0.4, 0.7)  # fmt: skip
    held.expect("Reno, 10 ms: goodput with 25 MB over that with 16 MB", "", ratio(("reno", 10, 25), ("reno", 10, 16)), 0.99, 1.01)
    for name in ("bic", "cubic", "bbr"):
        held.expect(f"100 ms, 25 MB: goodput of {ALGORITHMS[name]} over that of Reno", "BIC is for such paths" if name == "bic" else "",
                    ratio((name, 100, 25), ("reno", 100, 25)), 1.7, 2.5)  # fmt: skip
    held.expect("100 ms, 16 MB: goodput of Reno over that of BIC", "", ratio(("reno", 100, 16), ("bic", 100, 16)), 0.99, 1.01)
    held.expect("100 ms, 25 MB: mean round trip of BBR, ms", "", mean_rtt["bbr", 100, 25], 100, 106)
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    flows, windows = run_data.flows(whole), run_data.windows(run)
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    rates = run_data.rates(run, [bottleneck(*case, name) for case in CASES for name in ALGORITHMS])
    table, data, grid = [], [], [[] for _ in range(len(ALGORITHMS) + 1)]
    goodputs, mean_rtt = {}, {}
    for round_trip, buffer in CASES:
        title = f"{round_trip} ms, {buffer} MB"
        speeds = chart.Panel(f"{title}: what the link carried", "time (s)", "frames (Mbit/s)", y_range=(0, 1050))
        for colour, name, row in zip(COLOURS, ALGORITHMS, grid):
            flow = flows[f"{name}-{round_trip}-{buffer}"]
            pipe = bottleneck(round_trip, buffer, name)
            lost = pipes[pipe]["drops_queue"]
            goodput = flow["goodput_bps"] / 1e6
            run_data.claim(goodput <= RATE / 1e6 * PAYLOAD / FRAME, f"{flow['name']} is faster than its link")
            fits = buffer * 1e6 <= held(round_trip)
            run_data.claim(not fits or lost == 0, f"{flow['name']} lost {lost} packets of a queue that it cannot fill")
            goodputs[name, round_trip, buffer], mean_rtt[name, round_trip, buffer] = goodput, flow["rtt_ns"]["mean"] / 1e6
            table.append([ALGORITHMS[name], round_trip, buffer, goodput, flow["retransmissions"], lost, flow["rtt_ns"]["mean"] / 1e6])
            panel = chart.Panel(f"{ALGORITHMS[name]}, {title}", "time (s)", "window (segments)")
            points = windows[flow["name"]]
            end = flow["finish_s"] or whole["simulated_s"]
            curve = lambda points: run_data.thin(run_data.steps(points, end))
            window = curve([(t, cwnd) for t, cwnd, _ in points])
            panel.line(f"window, {goodput:.0f} Mbit/s", window, colour)
            threshold = [(t, limit) for t, _, limit in points if limit is not None]
            highest = max(cwnd for _, cwnd in window) * 1.05
            if threshold:
                panel.y_range = (0, highest)
                panel.line(f"threshold, {flow['retransmissions']} sent again", curve(threshold), 3, dashed=True)
            row.append(panel)
            speeds.line(ALGORITHMS[name], rates[pipe], colour)
            data += [[flow["name"], t, *rest] for t, *rest in points]
        grid[-1].append(speeds)
    names = ["congestion", "round trip (ms)", "send buffer (MB)", "goodput (Mbit/s)", "sent again", "lost in the queue", "mean RTT (ms)"]
    figure = run / "figures" / "congestion-control"
    chart.save(figure.with_suffix(".svg"), "Congestion control, round trips and send buffers at 1 Gbit/s", grid)
    chart.save_csv(figure.with_suffix(".csv"), ["flow", "t_s", "cwnd", "ssthresh"], data)
    chart.save_table(figure.with_suffix(".md"), names, table)
    hold(run, goodputs, mean_rtt).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
