"""Draws RUN/figures/microgrid-cpu.svg and writes its data beside it: `figure.py RUN`.

It claims that no host had more CPU time than its share, and, where the machine was left alone, that none
had less than 3 % (without control groups 10 %) below it in the best of its rounds.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

SHARES = {"quarter": 0.25, "half": 0.5, "whole": 1.0}
BANDS = {"cgroup-v1": 0.03, "cgroup-v2": 0.03, "duty-cycle": 0.1}
TICK_NS = 4_000_000
DELAY_NS = 5_000_000  # of a hand-over


def expected(cpu_ns, share, period_ns):
    """The least and the most that so much CPU time takes, and what it takes in the mean.

    A host has its share of each period at once, as soon as it wants it, and is throttled for the rest of the
    period. A computation may meet the rest of neither the period in which it begins nor that in which it ends,
    so two rests are missing at most; and it may have to wait for one rest before it begins. The kernel sees by
    its next tick that a share is used up; what was too much is taken from later periods, which may be after the
    end.
    """
    if share == 1:
        return cpu_ns, cpu_ns, cpu_ns
    rest_ns, mean = (1 - share) * period_ns, cpu_ns / share
    return mean - TICK_NS / share - 2 * rest_ns, mean + TICK_NS / share + rest_ns, mean


def load(run):
    """Host → rounds, held against theory."""
    resources = run_data.summary(run)["resources"]
    reported = {host["name"]: host["cpu"] for host in resources["hosts"]}
    band = BANDS[resources["cpu"]]
    # A duty cycle has pieces of about as long.
    period_ns = lambda cpu: (cpu["period_us"] or 10_000) * 1000
    periods = {name: period_ns(reported[name]) if name in reported else 0 for name in SHARES}
    rounds = {name: run_data.rows(run / "hosts" / name / "rounds.csv") for name in SHARES}
    # Who has all of a CPU is kept from it only by others on the machine.
    best = {name: max(row["cpu_ns"] / row["elapsed_ns"] for row in rows) for name, rows in rounds.items()}
    alone = best["whole"] > 1 - band
    for name, rows in rounds.items():
        for row in rows:
            least, _, _ = expected(row["cpu_ns"], SHARES[name], periods[name])
            run_data.claim(row["elapsed_ns"] >= least * (1 - band),
                           f"{name} computed for {row['cpu_ns']} ns of CPU time within {row['elapsed_ns']} ns")  # fmt: skip
            run_data.claim(row["exchange_ns"] >= DELAY_NS, f"a token was handed on within {row['exchange_ns']} ns")
        least = min(rows, key=lambda row: row["elapsed_ns"] / row["cpu_ns"])
        _, most, _ = expected(least["cpu_ns"], SHARES[name], periods[name])
        run_data.claim(not alone or least["elapsed_ns"] <= most * (1 + band),
                       f"{name} took {least['elapsed_ns']} ns for {least['cpu_ns']} ns of CPU time")  # fmt: skip
    return rounds, periods, alone


def table(rounds, periods):
    """A row per host: its share as asked and as it came, and a round's times beside theory, in ms."""
    for name, rows in rounds.items():
        middle = lambda column: run_data.quantile(sorted(row[column] for row in rows), 0.5)
        cpu, elapsed = (sum(row[column] for row in rows) for column in ("cpu_ns", "elapsed_ns"))
        theory = expected(middle("cpu_ns"), SHARES[name], periods[name])[2]
        yield [name, SHARES[name], cpu / elapsed, len(rows), middle("cpu_ns") / 1e6, middle("elapsed_ns") / 1e6,
               theory / 1e6, middle("elapsed_ns") / theory - 1, middle("exchange_ns") / 1e6]  # fmt: skip


def draw(rounds, rows):
    """Time against share, and every round's error."""
    times = chart.Panel("(a) A round's computation, median", "the host's share of a CPU", "time (ms)", (0, 1.05))
    work = rows[-1][4]
    times.line("theory: CPU time over share", [(part / 100, work / (part / 100)) for part in range(22, 101)])
    times.dots("Longhaul", [(row[1], row[5]) for row in rows], 0)
    count = max(len(of_host) for of_host in rounds.values())
    curves = {
        name: [(row["round"] + 1, 100 * (row["cpu_ns"] / row["elapsed_ns"] / SHARES[name] - 1)) for row in of_host]
        for name, of_host in rounds.items()
    }
    most = max(15, *(abs(off) * 1.05 for points in curves.values() for _, off in points))
    errors = chart.Panel("(b) Each round's share against what was asked", "round", "difference (%)", (0, count + 1), (-most, most))
    errors.line("", [(0, 0), (count + 1, 0)])
    for colour, (name, points) in enumerate(curves.items()):
        errors.dots(f"{name}: {SHARES[name]:g} CPU", points, colour)
    return [[times, errors]]


def main():
    run = pathlib.Path(sys.argv[1])
    rounds, periods, alone = load(run)
    rows = list(table(rounds, periods))
    names = ["host", "asked", "share", "rounds", "cpu_ms", "elapsed_ms", "theory_ms", "error", "exchange_ms"]
    figure = run / "figures" / "microgrid-cpu"
    # What others on the machine took from `whole` says nothing about shares.
    held = findings.Findings(run, full=alone and not findings.changed(run))
    best = {name: min(row["elapsed_ns"] / row["cpu_ns"] for row in of_host) for name, of_host in rounds.items()}
    for name, times in (("quarter", 4), ("half", 2)):
        held.expect(f"time for the same work, best round: {name} over whole", f"follows from the shares: {times}",
                    best[name] / best["whole"], times * 0.85, times * 1.15)  # fmt: skip
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    chart.save(figure.with_suffix(".svg"), "Work handed around hosts of 0.25, 0.5 and 1 CPU", draw(rounds, rows))
    held.settle(figure.with_suffix(".md"))
    print(figure.with_suffix(".svg"))


main()
