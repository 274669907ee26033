"""Draws RUN/figures/file-sharing.svg, its data and the README's table: `figure.py RUN`.

Theory: every file that the server sends crosses its link, the backbone and one department. One
that comes from the same department crosses that alone, but twice over users' links. So transfers cannot more than double
what departments carry. The longer it goes on, the more is near: `warm` computes that from the requests alone.
"""

import csv
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chart
import findings
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


def warm(seconds):
    """After so long a time, by bytes: backbone of central over that of peers, departments of peers over central's."""
    asked, sizes = requests.asked(seconds)
    whole = backbone = departments = 0
    for (now, user, file), sender in zip(asked, requests.sources(asked, sizes)):
        if now < seconds / 2:
            continue
        size, own = sizes[file], sender == user
        near = sender is not None and sender[0] == user[0]
        whole += size
        # The server's files cross one department's links, those of another department two.
        backbone += 0 if near else size if sender is None else 2 * size
        departments += 0 if own else size if sender is None else 2 * size
    return whole / backbone, departments / whole


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
        panel = chart.Panel(title, "time (s)", "frames, both ways (Mbit/s)", (0, math.ceil(end / BIN_S) * BIN_S))
        for colour, system in enumerate(SYSTEMS):
            panel.line(system, load[system, kind], colour)
        panels.append(panel)
    times = chart.Panel("Times of transfers", "time of a transfer (s)", "part that took no longer", x_range=(0, 3), y_range=(0, 1))
    rows, table, loads_late, mean_s = [], [], {}, {}
    for colour, system in enumerate(SYSTEMS):
        took = sorted(seconds for _, seconds in done[system])
        run_data.claim(took, f"{system} has finished no transfer")
        times.line(system, run_data.thin([(seconds, (at + 1) / len(took)) for at, seconds in enumerate(took)]), colour)
        rows += [[system, kind, at, mbps] for kind in ("backbone", "departments", "server") for at, mbps in load[system, kind]]
        half = lambda kind: mean(mbps for at, mbps in load[system, kind] if late[0] <= at <= late[1])
        loads_late |= {(system, kind): half(kind) for kind in ("server", "backbone", "departments")}
        mean_s[system] = mean(took)
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
    heads = ["after", "backbone, central over peers", "departments, peers over central"]
    later = {name: warm(seconds) for name, seconds in {"10 minutes": 600.0, "1 hour": 3600.0, "2 hours": 7200.0}.items()}
    chart.save_table(figure.with_name("warm.md"), heads, [[name, *ratios] for name, ratios in later.items()])
    held = findings.Findings(run)
    over = lambda kind, one, other: loads_late[one, kind] and loads_late[other, kind] and loads_late[one, kind] / loads_late[other, kind]
    held.expect("backbone: central over peers", "Figure 5: 3, after the cold start", over("backbone", "central", "peers"), 1.2, 1.6)
    held.expect("departments: peers over central", "Figure 6: 3 to 5, after the cold start", over("departments", "peers", "central"), 1.3, 2)
    held.expect("the server's link: central over peers", "peers offload the server", over("server", "central", "peers"), 3, 5)
    held.expect("mean time of a transfer: central over peers", "peers are done sooner (conclusion: 3)",
                mean_s["central"] / mean_s["peers"], 1.4, 2)  # fmt: skip
    held.expect("backbone after 2 hours, from the requests: central over peers", "Figure 5: 3", later["2 hours"][0], 2.5, 3.5, always=True)
    held.settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
