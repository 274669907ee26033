"""Draws RUN/figures/two-clusters.svg and writes its data beside it: `figure.py RUN`.

Theory: a round trip takes the delays of its path and what it waits in the queue of the narrowest link, which is
full while the downloads last; together they have what that link carries. The script claims that no round trip was
shorter than its path, and that the downloads were no faster than the link.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

# Both ways: 50 us, 1 ms, 3 ms, 1.1 ms and 50 us.
PATH_MS = 10.4
# Payload of full frames at 200 Mbit/s; the same for the time that 250 of them wait.
MOST_MBPS, QUEUE_MS = 200 * 1448 / 1518, 250 * 1518 * 8 / 200e3
SAID = re.compile(r"(\d+) MB from (\w+) in ([\d.]+) s: (\d+) Mbit/s")


def main():
    run = pathlib.Path(sys.argv[1])
    run_data.summary(run)
    probes = [(int(row["sent_ns"]) / 1e9, int(row["rtt_ns"]) / 1e6) for row in run_data.rows(run / "hosts/a0/probes.csv")]
    run_data.claim(probes, "no probe was answered")
    shortest = min(rtt for _, rtt in probes)
    run_data.claim(shortest >= PATH_MS, f"a round trip took {shortest:.3f} ms of at least {PATH_MS}, see {run}/hosts/a0/probes.csv")
    downloads = []
    for log in sorted(run.glob("logs/fetch@*.out")):
        found = SAID.search(log.read_text())
        run_data.claim(found, f"{log} has no rate")
        downloads.append((log.stem.split("@")[1], int(found[1]), float(found[3]), int(found[4])))
    total = sum(size for _, size, _, _ in downloads) * 8 / max(seconds for _, _, seconds, _ in downloads)
    # Programs round what they say.
    run_data.claim(total <= MOST_MBPS * 1.05, f"downloads had {total:.0f} Mbit/s of {MOST_MBPS:.0f}, see {run}/logs")
    end = probes[-1][0]
    trips = chart.Panel("Round trips of the probes", "time since the first probe (s)", "round trip (ms)", x_range=(0, end))
    trips.line("the empty path", [(0, PATH_MS), (end, PATH_MS)])
    trips.line("with the narrowest queue full", [(0, PATH_MS + QUEUE_MS), (end, PATH_MS + QUEUE_MS)], 3, dashed=True)
    trips.dots("probes", probes, 0)
    rates = chart.Panel("Downloads", "host", "goodput (Mbit/s)", categories=[*(name for name, *_ in downloads), "both, until the last ended"])
    rates.line("what the link carries", [(-0.5, MOST_MBPS), (len(downloads) + 0.5, MOST_MBPS)], 3, dashed=True)
    rates.columns("", [(at, mbps) for at, mbps in enumerate([*(row[3] for row in downloads), total])], 0)
    figure = run / "figures" / "two-clusters"
    chart.save(figure.with_suffix(".svg"), "Two clusters behind a wide-area path", [[trips, rates]])
    chart.save_csv(figure.with_suffix(".csv"), ["sent_s", "rtt_ms"], probes)
    print(figure.with_suffix(".svg"))


main()
