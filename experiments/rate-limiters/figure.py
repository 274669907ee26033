"""Draws RUN/figures/rate-limiters.svg, its data and the README's table: `figure.py RUN`.

Theory: packets that two sources send in even gaps, together slower than the bottleneck, never find
more than one of the other's before them. A full bucket lets its depth through at the speed of the
card, and two such bursts queue up at the bottleneck. Probes see that queue as delay above the least.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

# Limiter, congestion control, and the limit and the bottleneck in Mbit/s, of each network.
NETWORKS = [
    ("even gaps", "reno", 490, 1000), ("even gaps", "bic", 490, 1000),
    ("bucket of 64 KB", "reno", 490, 1000), ("bucket of 64 KB", "bic", 490, 1000),
    ("bucket of 15.4 MB", "reno", 490, 1000), ("bucket of 15.4 MB", "bic", 490, 1000),
    ("even gaps", "bic", 385, 700), ("even gaps", "bic", 420, 700),
]  # fmt: skip
NAMES = {"reno": "Reno", "bic": "BIC"}
QUEUE = 250
# The largest frame, as its rate is counted.
FRAME_BITS = 1518 * 8


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    flows = run_data.flows(whole)
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    rates = run_data.rates(run, [f"x{number}>y{number}" for number in range(len(NETWORKS))])
    rows, table = [], []
    for number, (limiter, name, limit, bottleneck) in enumerate(NETWORKS):
        pair = [flows[f"first-{name}@s{number}>d{number}"], flows[f"second-{name}@t{number}>e{number}"]]
        goodputs = [flow["goodput_bps"] / 1e6 for flow in pair]
        lost = pipes[f"x{number}>y{number}"]["drops_queue"]
        probe = flows[f"probe@p{number}>q{number}"]["datagrams"]
        peak, mean = ((probe[f"delay_{kind}_s"] - probe["delay_min_s"]) * 1e6 for kind in ("max", "mean"))
        what = f"network {number}, {limiter}"
        run_data.claim(peak <= QUEUE * FRAME_BITS / bottleneck + FRAME_BITS / bottleneck, f"{what}: a queue of {peak} us")
        if limiter == "even gaps" and 2 * limit <= bottleneck:
            run_data.claim(lost == 0, f"{what}: {lost} packets lost")
            run_data.claim(peak <= 2 * FRAME_BITS / bottleneck, f"{what}: a queue of {peak} us")
        jain = sum(goodputs) ** 2 / (2 * sum(x * x for x in goodputs))
        resent = sum(flow["retransmissions"] for flow in pair)
        rows.append([number, limiter, name, limit, bottleneck, *goodputs, jain, lost, resent, peak, mean])
        table.append([f"{limiter}, {limit} Mbit/s", NAMES[name], bottleneck, *goodputs, jain, lost, resent, peak, mean])
    short = lambda row: row[1].replace(" of ", "\n").replace("even ", "even\n") + f"\n{row[3]} of\n{row[4]}\n{NAMES[row[2]]}"
    places = {"categories": [short(row) for row in rows]}
    limiters = "limiter of each source, its rate of the bottleneck's (Mbit/s), congestion control"
    panels = [chart.Panel("Goodput", limiters, "goodput (Mbit/s)", **places),
              chart.Panel("The queue at the bottleneck", limiters, "delay of probes (µs)", **places),
              chart.Panel("Lost at the bottleneck", limiters, "packets", **places),
              chart.Panel("The bottleneck of 1 Gbit/s with BIC", "time (s)", "frames (Mbit/s)", x_range=(0, 12))]  # fmt: skip
    panels[0].columns("first source", [(row[0], row[5]) for row in rows], 0)
    panels[0].columns("second source", [(row[0], row[6]) for row in rows], 1)
    panels[1].columns("longest", [(row[0], row[10]) for row in rows], 1)
    panels[1].columns("mean", [(row[0], row[11]) for row in rows], 0)
    panels[2].columns("", [(row[0], row[8]) for row in rows], 1)
    for colour, number in enumerate((1, 3, 5)):
        panels[3].line(NETWORKS[number][0], rates[f"x{number}>y{number}"], colour, dashed=number == 3)
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
