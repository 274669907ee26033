"""Draws RUN/figures/nemc-latency.svg and writes its data beside it: `figure.py RUN`.

It claims that every datagram arrived, in order, and that none came before its link's delay was
over; how much later it came is what the figure shows. What the paper found is held against the medians, in a
run that is not broken.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

PATH_US = 100  # between the paper's clusters, without a delay
NETEM = "netem in user-mode Linux"
FINE_US = 40  # how far the panel of fine steps goes


def points(pairs):
    """Set delay → its sorted latencies, both in microseconds."""
    by_delay = {}
    for pair in pairs:
        latency_ns = pair["received_ns"] - pair["sent_ns"]
        by_delay.setdefault(pair["delay_us"], []).append(latency_ns / 1000)
    return {delay: sorted(latencies) for delay, latencies in sorted(by_delay.items())}


def table(latencies):
    """One row per delay: packets, quantiles, and the median less set delay and zero-delay path."""
    zero = run_data.quantile(latencies[0], 0.5) if 0 in latencies else None
    for delay, values in latencies.items():
        at = [run_data.quantile(values, part) for part in (0.1, 0.5, 0.9)]
        error = at[1] - delay
        yield [delay, len(values), values[0], *at, values[-1], error, None if zero is None else error - zero]


def load(run):
    """The series to draw: name → latencies."""
    lost = run_data.summary(run)["verdict"]["physical_drops"]
    files = [run_data.rows(run / "hosts" / name) for name in ("a/sent.csv", "b/received.csv")]
    pairs = run_data.pairs(*files, lost)
    for pair in pairs:
        early_ns = pair["delay_us"] * 1000 - (pair["received_ns"] - pair["sent_ns"])
        run_data.claim(early_ns <= 0, f"datagram {pair['number']} came {early_ns} ns before its delay was over")
    series = {"Longhaul": points(pairs)}
    netem = [run / "netem" / name for name in ("sent.csv", "received.csv")]
    if all(path.exists() for path in netem):
        series[NETEM] = points(run_data.pairs(*map(run_data.rows, netem)))
    return series


def draw(series):
    """The four panels."""
    top = max(series["Longhaul"])
    rows = {name: list(table(latencies)) for name, latencies in series.items()}
    set_delay = "set delay (µs)"
    whole = chart.Panel("(a) Latency, median", set_delay, "one-way latency (µs)", (0, top))
    fine_range = (0, min(FINE_US, top))
    fine = chart.Panel("(b) The first steps, median and 10 to 90 % of packets", set_delay, "one-way latency (µs)",
                       fine_range, (0, fine_range[1] + 80))  # fmt: skip
    errors = chart.Panel("(c) Latency less set delay, median and 10 to 90 %", set_delay, "difference (µs)",
                         (0, top), (0, 120))  # fmt: skip
    off = [abs(row[8]) for of in rows.values() for row in of if row[8] is not None]
    most = max(40, *(value * 1.1 for value in off)) if off else 40
    net = chart.Panel("(d) Median of (c) less that at zero delay", set_delay, "difference (µs)", (0, top), (-most, most))
    whole.line("NemC: the set delay and 100 µs of path", [(0, PATH_US), (top, top + PATH_US)], 2, dashed=True)
    for panel, end in ((whole, top), (fine, fine_range[1])):
        panel.line("the set delay", [(0, 0), (end, end)])
    for panel in (errors, net):
        panel.line("", [(0, 0), (top, 0)])
    for colour, (name, latencies) in enumerate(series.items()):
        coarse = [row for row in rows[name] if row[0] % 50 == 0]
        first = [row for row in rows[name] if row[0] <= fine_range[1]]
        whole.dots(name, [(row[0], row[4]) for row in coarse], colour)
        fine.ranges("", [(row[0], row[3], row[5]) for row in first], colour)
        fine.dots(name, [(row[0], row[4]) for row in first], colour)
        errors.ranges("", [(row[0], row[3] - row[0], row[5] - row[0]) for row in coarse], colour)
        errors.dots(name, [(row[0], row[7]) for row in coarse], colour)
        net.dots(name, [(row[0], row[8]) for row in coarse if row[8] is not None], colour)
    return [[whole, fine], [errors, net]]


def hold(run, series):
    """What the paper found with Figure 3, of the medians."""
    broken = run_data.summary(run)["verdict"]["state"] == "broken"
    held = findings.Findings(run, full=not broken and not findings.changed(run))
    medians = {
        name: {delay: run_data.quantile(values, 0.5) for delay, values in latencies.items()} for name, latencies in series.items()
    }
    at = medians["Longhaul"]
    most = max(at)
    less = lambda one, other, at=at: at[one] - at[other] if one in at and other in at else None
    slope = lambda at: less(most, 100, at) and less(most, 100, at) / (most - 100)
    rise = f"rise of the latency from 100 to {most} µs, over that of the set delay"
    held.expect(f"Figure 3a: {rise}", "1 (NemC, NIST Net)", slope(at), 0.98, 1.02)
    if NETEM in medians:
        held.expect(f"Figure 3a, netem: {rise}", "0 (its timer had 1 ms)", slope(medians[NETEM]), 0.9, 1.1)
    held.expect("Figure 3b: latency at 100 µs, less the set delay, µs", f"about {PATH_US} (the path)", at.get(100) and at[100] - 100, 0, PATH_US)
    for delay in range(100, 300, 50):
        held.expect(f"Figure 3b: step from {delay} to {delay + 50} µs, µs", "50 (NemC); 0 or 122 (NIST Net)", less(delay + 50, delay), 45, 55)
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    series = load(run)
    names = ["emulator", "delay_us", "packets", "min_us", "p10_us", "median_us", "p90_us", "max_us",
             "median_less_delay_us", "and_less_zero_delay_us"]  # fmt: skip
    rows = [[name, *row] for name, latencies in series.items() for row in table(latencies)]
    figure = run / "figures" / "nemc-latency"
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    chart.save(figure.with_suffix(".svg"), "One-way latency against set delay, 512-byte datagrams", draw(series))
    hold(run, series).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
