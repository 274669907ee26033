"""Draws RUN/figures/source-machines.svg, its data and the README's tables: `figure.py RUN`.

Theory: flows of one machine leave it one packet after the other, at the rate of its network card. A bottleneck
of that rate never has more than one of them to keep, so that they can lose nothing there; their queue is
in the machine. Two machines send twice that rate together, and what is too much for the bottleneck's
queue is lost.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

MACHINES = {"one": ("one", "one"), "two": ("a", "b")}
# Congestion control and the bottleneck's queue in packets, seven trials of each. What one machine sends
# needs no queue there, so that it has the smaller one only.
CASES = [("reno", 250), ("bic", 250), ("reno", 2000), ("bic", 2000)]
NAMES = {"reno": "Reno", "bic": "BIC"}
TRIALS, KINDS = 7, {250: ("one", "two"), 2000: ("two",)}
# Mbit/s of payload in frames of 1518 bytes at 1 Gbit/s.
MOST = 1000 * 1448 / 1518
# Jain's index of one machine's flows.
FAIR = 0.99
# What two machines have of what one has, in the median: at least, and at most by the queue. The longer queue may
# hold most of what is too much.
LEAST, LARGEST = 0.6, {250: 0.99, 2000: 1.0}


def trial(flows, pipes, kind, case, number):
    """Of a network: kind, congestion control, queue, number, both rates, Jain's index, packets lost and sent again."""
    name, queue = case
    pair = [flows[f"{kind}-{which}-{name}@{source}{number}>{kind}-{end}{number}"]
            for which, source, end in zip(("first", "second"), MACHINES[kind], "de")]  # fmt: skip
    rates = [flow["goodput_bps"] / 1e6 for flow in pair]
    lost = pipes[f"{kind}-x{number}>{kind}-y{number}"]["drops_queue"]
    return [kind, name, queue, number, *rates, run_data.jain(rates), lost, sum(flow["retransmissions"] for flow in pair)]


def median(values):
    return run_data.quantile(sorted(values), 0.5)


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    flows = run_data.flows(whole)
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    rows, table, one = [], [], {}
    held = findings.Findings(run, full=whole["simulated_s"] > 10)
    spread = lambda values, digits: f"{min(values):.{digits}f} to {max(values):.{digits}f}"
    for at, case in enumerate(CASES):
        for kind in KINDS[case[1]]:
            found = [trial(flows, pipes, kind, case, TRIALS * at + n) for n in range(TRIALS)]
            sums, fair, lost = [row[4] + row[5] for row in found], [row[6] for row in found], [row[7] for row in found]
            if kind == "one":
                one[case[0]] = median(sums)
            ratio = median(sums) / one[case[0]] if kind == "two" else None
            hold(held, kind, case, fair, lost, ratio)
            rows += found
            table.append([kind, *case, median(sums), spread(sums, 0), median(fair), spread(fair, 2), median(lost), ratio])
    draw(run, whole, rows)
    figure = run / "figures" / "source-machines"
    names = ["machines", "congestion", "queue_packets", "network", "first_mbps", "second_mbps", "jain", "lost", "sent_again"]
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    heads = ["machines", "congestion", "queue (packets)", "both flows (Mbit/s)", "range", "Jain's index", "range",
             "lost at the bottleneck", "two / one"]  # fmt: skip
    chart.save_table(figure.with_suffix(".md"), heads, table)
    hold_bounds(held, rows, pipes)
    held.settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


def hold(held, kind, case, fair, lost, ratio):
    """One machine shares fairly; two lose packets, and have less."""
    what = f"{NAMES[case[0]]}, queue of {case[1]}"
    if kind == "one":
        held.expect(f"one machine, {what}: least Jain's index", "about 0.99 in all experiments", min(fair), FAIR)
        return
    impact = "Figure 9: the source has an impact"
    held.expect(f"two machines, {what}: fewest packets lost in a trial", impact, min(lost), 1)
    held.expect(f"{what}: goodput of two machines over that of one, medians", impact, ratio, LEAST, LARGEST[case[1]])


def hold_bounds(held, rows, pipes):
    """What holds at any size: no more than the bottleneck carries, and nothing lost by one machine."""
    fastest = max(rows, key=lambda row: row[4] + row[5])
    held.expect(f"highest goodput of both flows, Mbit/s ({fastest[0]} {NAMES[fastest[1]]}, network {fastest[3]})", "",
                fastest[4] + fastest[5], high=MOST, always=True)  # fmt: skip
    own = [row for row in rows if row[0] == "one"]
    held.expect("one machine: most packets lost at the bottleneck in a trial", "", max(row[7] for row in own), high=0, always=True)
    cards = [pipes[f"one{row[3]}>one-x{row[3]}"]["drops_queue"] for row in own]
    held.expect("one machine: most packets lost at its network card in a trial", "", max(cards), high=0, always=True)


def draw(run, whole, rows):
    place = {row[3]: (row[3] // TRIALS) + 0.1 * (row[3] % TRIALS - TRIALS // 2) for row in rows}
    axis = "Reno, BIC: 250 packets; Reno, BIC: 2000 packets"
    panels = [chart.Panel("Both flows together", axis, "Mbit/s", x_range=(-0.5, 3.5), y_range=(0, 1300)),
              chart.Panel("Jain's index", axis, "", x_range=(-0.5, 3.5), y_range=(0.4, 1.2)),
              chart.Panel("Lost at the bottleneck", axis, "packets", x_range=(-0.5, 3.5)),
              chart.Panel("The bottleneck of 250 packets, Reno", "time (s)", "Mbit/s of frames", x_range=(0, 11), y_range=(0, 1300))]  # fmt: skip
    for colour, (kind, text) in enumerate((("one", "one machine"), ("two", "two machines"))):
        own = [row for row in rows if row[0] == kind]
        panels[0].dots(text, [(place[row[3]], row[4] + row[5]) for row in own], colour)
        panels[1].dots(text, [(place[row[3]], row[6]) for row in own], colour)
        panels[2].dots(text, [(place[row[3]], row[7]) for row in own], colour)
        pipe = f"{kind}-x0>{kind}-y0"
        panels[3].line(text, run_data.rates(run, [pipe])[pipe], colour)
    chart.save(run / "figures" / "source-machines.svg", "Two flows from one machine and from two", [panels[:2], panels[2:]])


main()
