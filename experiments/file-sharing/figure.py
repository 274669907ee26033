"""Draws RUN/figures/file-sharing.svg, its data and the README's table: `figure.py RUN`.

Theory: every file that the server sends crosses its link, the backbone and one department. One
that comes from the same department crosses that alone, but twice over users' links.
"""

import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chart
import requests
import run_data

SYSTEMS = ["central", "peers"]
BIN_S = 20


def place(pipe):
    """What a pipe belongs to: its system, and whether server, backbone or departments."""
    name = pipe.partition(":")[0]
    kind = "server" if "server" in name else "backbone" if "backbone" in name else "departments"
    return ("central" if name.startswith("c-") else "peers"), kind


def loads(run):
    """By system and kind, Mbit/s in each bin, summed over all pipes; what joins the two left out."""
    found = {(system, kind): {} for system in SYSTEMS for kind in ("server", "backbone", "departments")}
    for row in run_data.rows(run / "series" / "pipes.csv"):
        where = row["second"] // BIN_S
        bins = found[place(row["pipe"])]
        bins[where] = bins.get(where, 0) + row["bytes"] * 8e-6 / BIN_S
    return {key: [((at + 0.5) * BIN_S, bins[at]) for at in sorted(bins)] for key, bins in found.items()}


def transfers(run):
    """By system the (start, seconds) of all transfers that were finished, and how many there were."""
    done, begun = {system: [] for system in SYSTEMS}, dict.fromkeys(SYSTEMS, 0)
    with open(run / "flows.csv", newline="") as file:
        for row in csv.DictReader(file):
            system = row["flow"].partition("#")[0]
            begun[system] += 1
            run_data.claim(row["failed"] == "false", f"{row['flow']} gave up")
            if row["completion_s"]:
                done[system].append((float(row["start_s"]), float(row["completion_s"])))
    return done, begun


def kinds(until):
    """How many requests up to then had which source among peers."""
    asked, sizes = requests.asked()
    count = dict.fromkeys(["itself", "same department", "another", "server"], 0)
    for (now, user, _), sender in zip(asked, requests.sources(asked, sizes)):
        kind = "server" if sender is None else "itself" if sender == user else "same department" if sender[0] == user[0] else "another"
        count[kind] += now <= until
    return count


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    for system in SYSTEMS:
        text = (HERE / f"{system}.csv").read_text()
        run_data.claim(text == requests.lines(system), f"{system}.csv is not what requests.py writes")
    end = min(whole["simulated_s"], requests.LASTS_S)
    done, begun = transfers(run)
    load = loads(run)
    late = (end / 2, end)
    panels = []
    for kind, title in [("backbone", "Backbone (Figure 5)"), ("departments", "Departments (Figure 6)"), ("server", "The server's link")]:
        panel = chart.Panel(title, "time (s)", "Mbit/s of frames, both ways")
        for colour, system in enumerate(SYSTEMS):
            panel.line(system, load[system, kind], colour)
        panels.append(panel)
    times = chart.Panel("Transfers", "seconds", "part that took no longer", x_range=(0, 3), y_range=(0, 1.2))
    rows, table = [], []
    for colour, system in enumerate(SYSTEMS):
        took = sorted(seconds for _, seconds in done[system])
        run_data.claim(took, f"{system} has finished no transfer")
        times.line(system, run_data.thin([(seconds, (at + 1) / len(took)) for at, seconds in enumerate(took)]), colour)
        rows += [[system, kind, at, mbps] for kind in ("backbone", "departments", "server") for at, mbps in load[system, kind]]
        half = lambda kind: mean(mbps for at, mbps in load[system, kind] if late[0] <= at <= late[1])
        table.append([system, begun[system], len(took), mean(took), run_data.quantile(took, 0.5), run_data.quantile(took, 0.99),
                      half("server"), half("backbone"), half("departments")])  # fmt: skip
    if whole["simulated_s"] >= requests.LASTS_S:
        run_data.claim(all(row[1] == row[2] for row in table), "transfers were not finished")
    figure = run / "figures" / "file-sharing"
    chart.save(figure.with_suffix(".svg"), "A central file server and peers", [panels[:2], [panels[2], times]])
    chart.save_csv(figure.with_suffix(".csv"), ["system", "where", "t_s", "mbps"], rows)
    names = ["system", "transfers", "finished", "mean (s)", "median (s)", "99 % (s)", "server (Mbit/s)", "backbone", "departments"]
    chart.save_table(figure.with_suffix(".md"), names, table)
    count = kinds(end)
    chart.save_table(figure.with_name("sources.md"), [f"from {kind}" for kind in count], [[*count.values()]])
    print(figure.with_suffix(".svg"))


main()
