"""Draws RUN/figures/memory-bound.svg and writes its data beside it: `figure.py RUN`.

It claims that the first reading of both hosts took as long as their disks need, that every further one did
on the small host, within what its memory can have kept, and that the large one then read from memory; and that neither had
more memory than it was given.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data


def main():
    run = pathlib.Path(sys.argv[1])
    reported = {host["name"]: host for host in run_data.summary(run)["resources"]["hosts"]}
    passes = {name: run_data.rows(run / "hosts" / name / "passes.csv") for name in ("large", "small")}
    rows = []
    for name, of_host in passes.items():
        memory, peak = reported[name]["memory_bytes"], reported[name]["memory_peak_bytes"]
        run_data.claim(peak <= memory, f"{name} had {peak} bytes of {memory}")
        run_data.claim(reported[name]["oom_kills"] == 0, f"the kernel ended programs of {name}")
        for row in of_host:
            disk_ns = row["bytes"] / reported[name]["disk_read_bps"] * 1e9
            part = row["elapsed_ns"] / disk_ns
            # What memory holds is not read; the rest is, and no faster than the disk does.
            kept = 0 if row["pass"] == 0 else min(1, memory / row["bytes"])
            run_data.claim(part >= 0.9 * (1 - kept) - 2e8 / disk_ns, f"{name} read {row['bytes']} bytes in {part} of its disk's time")
            if name == "large" and row["pass"] > 0:
                run_data.claim(part < 0.5, f"large read what it had in {part} of its disk's time")
            rows.append([name, memory, row["pass"], row["elapsed_ns"] / 1e9, disk_ns / 1e9])
    count = max(row[2] for row in rows) + 1
    panel = chart.Panel("Time of each reading", "reading", "time (s)", categories=[f"{n + 1}" for n in range(count)])
    panel.line("all of it from the disk", [(-0.5, rows[0][4]), (count - 0.5, rows[0][4])], dashed=True)
    for colour, name in enumerate(passes):
        points = [(row[2], row[3]) for row in rows if row[0] == name]
        panel.columns(f"{name}: {chart.size(reported[name]['memory_bytes'])}", points, colour)
    figure = run / "figures" / "memory-bound"
    took = {name: [row[3] for row in rows if row[0] == name] for name in passes}
    later = {name: run_data.quantile(sorted(times[1:]), 0.5) for name, times in took.items()}
    held = findings.Findings(run)
    accurate = "every resource is modelled accurately"
    held.expect("first reading of large over that of small", accurate, took["large"][0] / took["small"][0], 0.8, 1.25)
    held.expect("a later reading of small over that of large", accurate, later["small"] / later["large"], 2, always=True)
    chart.save_csv(figure.with_suffix(".csv"), ["host", "memory_bytes", "reading", "elapsed_s", "disk_s"], rows)
    chart.save(figure.with_suffix(".svg"), "Reading a file again and again", [[panel]])
    held.settle(figure.with_suffix(".md"))
    print(figure.with_suffix(".svg"))


main()
