"""Draws RUN/figures/nemc-bandwidth.svg and writes its data beside it: `figure.py RUN`.

Theory: a stream cannot be faster than the link (of a full Ethernet frame of 1518 bytes, 1448 are
payload), and it has at most one window on its way in each round trip: min(rate, window / RTT).
It claims that every byte arrived.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

LINK_BPS = 1e9 * 1448 / 1518


def streams(run):
    """One row per stream: what was sent, with `bps`, the payload's rate."""
    run_data.summary(run)
    sent = run_data.rows(run / "hosts/a/sent.csv")
    received = run_data.rows(run / "hosts/b/received.csv")
    run_data.claim(len(sent) == len(received), f"{len(sent)} streams were sent, {len(received)} received")
    for one, other in zip(sent, received):
        there, here = one["bytes"], other["bytes"]
        run_data.claim(there == here, f"stream {one['number']}: {there} bytes sent, {here} received")
        run_data.claim(other["measured_ns"] > 0, f"stream {one['number']} ended before it was measured")
        # Of what was sent again the kernel knows the round trip only to a millisecond.
        exact = one["min_rtt_us"] if one["retransmits"] == 0 else one["min_rtt_us"] + 1000
        run_data.claim(exact >= 2 * one["delay_us"],
                       f"stream {one['number']}: a round trip of {one['min_rtt_us']} us")  # fmt: skip
        one["bps"] = other["measured_bytes"] * 8e9 / other["measured_ns"]
    return sent


def theory(window_bytes, rtt_us):
    """What TCP can reach, in bit/s."""
    return min(LINK_BPS, window_bytes * 8e6 / rtt_us) if rtt_us else LINK_BPS


def main():
    run = pathlib.Path(sys.argv[1])
    rows = streams(run)
    window = max(row["window_bytes"] for row in rows)
    top = max(row["delay_us"] for row in rows)
    by_delay = {}
    for row in rows:
        by_delay.setdefault(row["delay_us"], []).append(row)
    panel = chart.Panel(f"One stream, window at most {chart.size(window)}", "set delay (µs)", "goodput (Mbit/s)",
                        (0, top), (0, 1000))  # fmt: skip
    grid = range(0, top + 1, 5)
    panel.line("1 Gbit/s, or window / (2 × set delay)", [(d, theory(window, 2 * d) / 1e6) for d in grid])
    seen = lambda rows: theory(window, min(row["min_rtt_us"] for row in rows)) / 1e6
    panel.line("the same with the round trip that TCP saw", [(d, seen(r)) for d, r in sorted(by_delay.items())],
               3, dashed=True)  # fmt: skip
    best = {delay: sorted(row["bps"] / 1e6 for row in rows) for delay, rows in by_delay.items()}
    panel.ranges("", [(delay, rates[0], rates[-1]) for delay, rates in best.items()])
    panel.dots("measured, median of the rounds", [(delay, run_data.quantile(rates, 0.5)) for delay, rates in best.items()])
    figure = run / "figures" / "nemc-bandwidth"
    names = ["delay_us", "round", "bytes", "window_bytes", "min_rtt_us", "bps", "theory_bps"]
    data = [[row[name] for name in names[:-1]] + [theory(window, 2 * row["delay_us"])] for row in rows]
    chart.save_csv(figure.with_suffix(".csv"), names, data)
    chart.save(figure.with_suffix(".svg"), "TCP bandwidth against set delay", [[panel]])
    print(figure.with_suffix(".svg"))


main()
