"""Draws RUN/figures/rate-limiters.svg, its data and the README's table: `figure.py RUN`.

Theory: packets that two sources send in even gaps, together slower than the bottleneck, never find
more than one of the other's before them. A full bucket lets its depth through at the speed of the
network card, and two such bursts queue up at the bottleneck. Probes see that queue as delay above the least. A
limiter with little room loses the end of a slow start by itself, whoever else sends; then Reno's window
grows by a segment in each round trip.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

# Limiter, congestion control, and the limit and the bottleneck in Mbit/s, of each network.
SHORT, AFTER, DEEP = "bucket of 64 kB, room for 1 ms", "the same, one after the other", "bucket of 15.4 MB"
NETWORKS = [
    ("even gaps", "reno", 490, 1000), ("even gaps", "bic", 490, 1000),
    ("bucket of 64 kB", "reno", 490, 1000), ("bucket of 64 kB", "bic", 490, 1000),
    (SHORT, "reno", 490, 1000), (SHORT, "bic", 490, 1000), (AFTER, "reno", 490, 1000), (AFTER, "bic", 490, 1000),
    *[(DEEP, "reno", 490, 1000)] * 3, *[(DEEP, "bic", 490, 1000)] * 3,
    *[("even gaps", "bic", 385, 700)] * 3, *[("even gaps", "bic", 420, 700)] * 3,
]  # fmt: skip
NAMES = {"reno": "Reno", "bic": "BIC"}
# On axes.
SHORT_NAMES = {"even gaps": "even", "bucket of 64 kB": "64 kB", SHORT: "64 kB\n1 ms", AFTER: "64 kB\n1 ms\nturns", DEEP: "15 MB"}
# The paper's words: Jain's index about 0.99, 24 Mbit/s for each of two sources whether both send or one
# after the other, and pacing much better than the token bucket.
FAIR, OVERBOOKED, LEAST, MOST, BETTER = 0.99, 0.97, 12, 48, 3
QUEUE = 250
# The largest frame, as its rate is counted.
FRAME_BITS = 1518 * 8


def check(rows):
    """What the paper says of two sources: equal shares, and what the token bucket costs."""
    for number, least in [*((n, FAIR) for n in range(8)), *((n, OVERBOOKED) for n in range(14, 20))]:
        run_data.claim(rows[number][7] >= least, f"network {number}: Jain's index {rows[number][7]}")
    paced, bucket, after = (rows[number][5:7] for number in (0, 4, 6))
    for rate in (*bucket, *after):
        run_data.claim(LEAST <= rate <= MOST, f"a source with Reno and little room had {rate} Mbit/s")
    for number in (4, 5):
        both, one = sum(rows[number][5:7]), sum(rows[number + 2][5:7])
        run_data.claim(abs(both / one - 1) <= 0.05, f"network {number}: {both} Mbit/s together, {one} one by one")
    run_data.claim(min(paced) >= BETTER * max(bucket), f"even gaps gave {paced} Mbit/s, the bucket {bucket}")


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    flows = run_data.flows(whole)
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    rates = run_data.rates(run, [f"x{number}>y{number}" for number in range(len(NETWORKS))])
    rows, table = [], []
    for number, (limiter, name, limit, bottleneck) in enumerate(NETWORKS):
        ends = f"t{number}>e{number}"
        second = f"after-{name}" if limiter == AFTER else f"second-{name}@{ends}"
        pair = [flows[f"first-{name}@s{number}>d{number}"], flows[second]]
        goodputs = [flow["goodput_bps"] / 1e6 for flow in pair]
        lost = pipes[f"x{number}>y{number}"]["drops_queue"]
        probe = flows[f"probe@p{number}>q{number}"]["datagrams"]
        peak, mean = ((probe[f"delay_{kind}_s"] - probe["delay_min_s"]) * 1e6 for kind in ("max", "mean"))
        what = f"network {number}, {limiter}"
        run_data.claim(peak <= QUEUE * FRAME_BITS / bottleneck + FRAME_BITS / bottleneck, f"{what}: a queue of {peak} us")
        if limiter == "even gaps" and 2 * limit <= bottleneck:
            run_data.claim(lost == 0, f"{what}: {lost} packets lost")
            run_data.claim(peak <= 2 * FRAME_BITS / bottleneck, f"{what}: a queue of {peak} us")
        jain = run_data.jain(goodputs)
        resent = sum(flow["retransmissions"] for flow in pair)
        rows.append([number, limiter, name, limit, bottleneck, *goodputs, jain, lost, resent, peak, mean])
        table.append([f"{limiter}, {limit} Mbit/s", NAMES[name], bottleneck, *goodputs, jain, lost, resent, peak, mean])
    if whole["simulated_s"] > 20:
        check(rows)
    # Draws of starts for the same limiter stand above one another.
    kinds = list(dict.fromkeys(NETWORKS))
    at = [kinds.index(network) for network in NETWORKS]
    over = lambda limit, bottleneck: f"\n{2 * limit} of\n{bottleneck}" if 2 * limit > bottleneck else ""
    places = {"categories": [f"{SHORT_NAMES[limiter]}{over(limit, bottleneck)}\n{NAMES[name]}" for limiter, name, limit, bottleneck in kinds]}
    limiters = "limiter of each source (both of the bottleneck's rate where that is less), congestion control"
    panels = [chart.Panel("Goodput", limiters, "goodput (Mbit/s)", **places),
              chart.Panel("The queue at the bottleneck", limiters, "delay of probes (µs)", **places),
              chart.Panel("Lost at the bottleneck", limiters, "packets", **places),
              chart.Panel("The bottleneck of 1 Gbit/s with BIC", "time (s)", "frames (Mbit/s)", x_range=(0, 11))]  # fmt: skip
    drawn = lambda column: [(at[row[0]], row[column]) for row in rows]
    panels[0].dots("first source", drawn(5), 0)
    panels[0].dots("second source", drawn(6), 1, hollow=True)
    panels[1].dots("longest", drawn(10), 1)
    panels[1].dots("mean", drawn(11), 0, hollow=True)
    panels[2].dots("", drawn(8), 1)
    for colour, number in enumerate((1, 5, 11)):
        panels[3].line(NETWORKS[number][0], rates[f"x{number}>y{number}"], colour, dashed=number == 5)
    figure = run / "figures" / "rate-limiters"
    names = ["network", "limiter", "congestion", "limit_mbps", "bottleneck_mbps", "first_mbps", "second_mbps", "jain",
             "lost", "sent_again", "queue_max_us", "queue_mean_us"]  # fmt: skip
    chart.save(figure.with_suffix(".svg"), "Two limited sources: token buckets and even gaps", [panels[:2], panels[2:]])
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    heads = ["limiter of each source", "congestion", "bottleneck (Mbit/s)", "first (Mbit/s)", "second", "Jain's index",
             "lost at the bottleneck", "sent again", "longest queue (µs)", "mean queue (µs)"]  # fmt: skip
    chart.save_table(figure.with_suffix(".md"), heads, table)
    print(figure.with_suffix(".svg"))


main()
