"""Draws RUN/figures/disk-bound.svg and writes its data beside it: `figure.py RUN`.

It claims that each host read as fast as its disk, within 3 % and two slices of the kernel's.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

BAND = 0.03
SLICES_NS = 200_000_000  # the kernel counts in slices of 100 ms, and may be one ahead or behind
START_NS = 250_000_000  # the first slices are given in advance


def main():
    run = pathlib.Path(sys.argv[1])
    reported = {host["name"]: host for host in run_data.summary(run)["resources"]["hosts"]}
    reads = {name: run_data.rows(run / "hosts" / name / "reads.csv") for name in ("slow", "fast")}
    rows, lines = [], []
    for name, blocks in reads.items():
        asked, end = reported[name]["disk_read_bps"], blocks[-1]
        start = next(block for block in blocks if block["elapsed_ns"] >= START_NS)
        took = end["elapsed_ns"] - start["elapsed_ns"]
        rate = (end["bytes"] - start["bytes"]) / took * 1e9
        ideal = (end["bytes"] - start["bytes"]) / asked * 1e9
        run_data.claim(took + SLICES_NS >= ideal * (1 - BAND), f"{name} read {rate:.0f} B/s of {asked}")
        run_data.claim(took - SLICES_NS <= ideal * (1 + BAND), f"{name} read {rate:.0f} B/s of {asked}")
        rows.append([name, asked, rate, rate / asked - 1])
        lines.append((name, [(block["elapsed_ns"] / 1e9, block["bytes"] / 1e6) for block in blocks], asked))
    seconds = max(points[-1][0] for _, points, _ in lines)
    panel = chart.Panel("What had been read by when", "time since the first read (s)", "data read (MB)", (0, seconds * 1.05))
    for colour, (name, points, asked) in enumerate(lines):
        panel.line("" if colour else "the disk's rate", [(0, 0), (points[-1][0], points[-1][0] * asked / 1e6)])
        panel.dots(f"{name}: {asked / 1e6:g} MB/s", run_data.thin(points, 60), colour)
    figure = run / "figures" / "disk-bound"
    held = findings.Findings(run)
    # Both figures have an error of BAND, and slices at either end besides.
    rates = {row[0]: row[2] for row in rows}
    asked = {row[0]: row[1] for row in rows}
    held.expect("rate of fast over that of slow, less what was asked of it", "every resource is modelled accurately",
                rates["fast"] / rates["slow"] / (asked["fast"] / asked["slow"]) - 1, -2 * BAND, 2 * BAND)  # fmt: skip
    chart.save_csv(figure.with_suffix(".csv"), ["host", "asked_bps", "read_bps", "error"], rows)
    chart.save(figure.with_suffix(".svg"), "Reading from hosts' disks", [[panel]])
    held.settle(figure.with_suffix(".md"))
    print(figure.with_suffix(".svg"))


main()
