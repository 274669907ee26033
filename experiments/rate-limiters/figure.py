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
import findings
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


def frames(row):
    """The longest queue that probes saw, in frames of the largest size."""
    return row[10] * row[4] / FRAME_BITS


def hold_queues(held, rows):
    """What no run may exceed: the bottleneck's queue, and what even gaps below its rate leave of it."""
    longest = max(rows, key=frames)
    held.expect(f"longest queue seen by probes, frames (network {longest[0]})", "", frames(longest), high=QUEUE + 1, always=True)
    even = [row for row in rows if row[1] == "even gaps" and 2 * row[3] <= row[4]]
    lossy, longest = max(even, key=lambda row: row[8]), max(even, key=frames)
    below = "even gaps below the bottleneck's rate"
    held.expect(f"{below}: packets lost there (network {lossy[0]})", "", lossy[8], high=0, always=True)
    held.expect(f"{below}: longest queue seen by probes, frames (network {longest[0]})", "", frames(longest), high=2, always=True)


def hold(run, full, rows):
    """What the paper says of two sources: equal shares, and what the token bucket costs."""
    held = findings.Findings(run, full=full)
    for what, numbers, least in (("below the bottleneck's rate", range(8), FAIR), ("overbooking it", range(14, 20), OVERBOOKED)):
        row = min((rows[number] for number in numbers), key=lambda row: row[7])
        held.expect(f"sources {what}: least Jain's index (network {row[0]})", "about 0.99 in all experiments", row[7], least)
    paced, bucket, after = (rows[number][5:7] for number in (0, 4, 6))
    for when, rates in (("both at once", bucket), ("one after the other", after)):
        for which, rate in zip(("first", "second"), rates):
            held.expect(f"Reno, room for 1 ms, {when}: goodput of the {which} source, Mbit/s", "24 (Lyon)", rate, LEAST, MOST)
    for number in (4, 5):
        both, one = sum(rows[number][5:7]), sum(rows[number + 2][5:7])
        held.expect(f"{NAMES[rows[number][2]]}, room for 1 ms: goodput of both at once over one after the other",
                    "1 (Lyon: the same under either service)", both / one, 0.95, 1.05)  # fmt: skip
    held.expect("Reno: lowest goodput with even gaps over the highest with room for 1 ms", "pacing performs much better",
                min(paced) / max(bucket), BETTER)  # fmt: skip
    hold_queues(held, rows)
    return held


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
        jain = run_data.jain(goodputs)
        resent = sum(flow["retransmissions"] for flow in pair)
        rows.append([number, limiter, name, limit, bottleneck, *goodputs, jain, lost, resent, peak, mean])
        table.append([f"{limiter}, {limit} Mbit/s", NAMES[name], bottleneck, *goodputs, jain, lost, resent, peak, mean])
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
    hold(run, whole["simulated_s"] > 20, rows).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
