"""What the figures of the gallery read from a run folder, and what they hold against it.

A figure is only drawn from data that are whole: `claim` ends the program with 1 where they are not.
"""

import csv
import json
import pathlib
import sys


def claim(true, text):
    """Ends the program unless `true`."""
    if not true:
        sys.exit(f"{pathlib.Path(sys.argv[0]).parent.name}: {text}")


def rows(path):
    """The lines of a CSV file, whole numbers as such, everything else as text."""
    number = lambda text: int(text) if text.lstrip("-").isdigit() else text
    with open(path, newline="") as file:
        return [{name: number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def summary(run):
    """`summary.json` of a run folder, whose sums must be exact."""
    whole = json.loads((pathlib.Path(run) / "summary.json").read_text())
    packets, pipes = whole["packets"], whole["pipes"]
    dropped = packets["dropped"]
    put_in = packets["entered"] + packets["created"]
    got_out = packets["delivered"] + sum(dropped.values()) + packets["inside"]
    claim(put_in == got_out, f"{put_in} packets went into the network and {got_out} came out")
    hops = sum(pipe["packets"] for pipe in pipes)
    claim(hops == packets["hops"], f"{hops} packets left the pipes, but there were {packets['hops']} hops")
    for cause in ("queue", "loss"):
        lost = sum(pipe[f"drops_{cause}"] for pipe in pipes)
        claim(lost == dropped[cause], f"the pipes lost {lost} packets by {cause}, the network {dropped[cause]}")
    return whole


def series(run, name):
    """The rows of a series that `measure` has written as CSV, all parts of it."""
    parts = sorted((pathlib.Path(run) / "series" / name).glob("*.csv"))
    claim(parts, f"there is no series {name}")
    return [row for part in parts for row in rows(part)]


def pairs(sent, received, lost_by_machine=None):
    """The rows of `sent.csv` with the times of `received.csv`: what never arrived is left out.

    Every datagram arrives once and in order, except for those that the machine has lost, where
    their number is known.
    """
    numbers = [row["number"] for row in received]
    if lost_by_machine is not None:
        claim(numbers == sorted(set(numbers)), "datagrams were doubled or overtook one another")
        claim(set(numbers) <= {row["number"] for row in sent}, "datagrams arrived that nobody sent")
        missing = len(sent) - len(numbers)
        claim(missing <= lost_by_machine, f"{missing} datagrams of {len(sent)} are missing")
    arrived = {row["number"]: row["received_ns"] for row in received}
    return [{**row, "received_ns": arrived[row["number"]]} for row in sent if row["number"] in arrived]


def flows(whole):
    """The modelled flows of a summary by their names, none of which gave up."""
    for flow in whole["flows"]:
        claim(not flow["failed"], f"the flow {flow['name']} gave up")
    return {flow["name"]: flow for flow in whole["flows"]}


def windows(run):
    """By flow the changes of its window, (time in s, window, threshold or None) in segments."""
    found = {}
    with open(pathlib.Path(run) / "series" / "flows.csv", newline="") as file:
        for row in csv.DictReader(file):
            threshold = int(row["ssthresh"]) if row["ssthresh"] else None
            found.setdefault(row["flow"], []).append((float(row["time_s"]), int(row["cwnd"]), threshold))
    return found


def rates(run, pipes):
    """By pipe its Mbit/s in each second, (middle of the second, Mbit/s), of those in `pipes`."""
    found = {pipe: [] for pipe in pipes}
    for row in rows(pathlib.Path(run) / "series" / "pipes.csv"):
        if row["pipe"] in found:
            found[row["pipe"]].append((row["second"] + 0.5, row["bytes"] * 8e-6))
    return found


def steps(points, end):
    """The curve of what holds from each of the points to the next, and the last until `end`."""
    ends = [at for at, _ in points[1:]] + [end]
    return [corner for (at, value), until in zip(points, ends) for corner in ((at, value), (max(at, until), value))]


def thin(points, most=1200):
    """At most `most` points of a curve over time, in their order: ends, lowest and highest of each stretch.

    Stretches are equally long in time. If they had equally many points, one could hold a long flat part and what
    follows it, and losing the end of the flat part would draw a slope that was never there.
    """
    if len(points) <= most:
        return points
    begin, end, stretches = points[0][0], points[-1][0], {}
    for at, point in enumerate(points):
        number = int((point[0] - begin) / ((end - begin) or 1) * (most // 4 - 1))
        stretches.setdefault(number, []).append(at)
    height = lambda at: points[at][1]
    ends = lambda stretch: {stretch[0], min(stretch, key=height), max(stretch, key=height), stretch[-1]}
    return [points[at] for stretch in stretches.values() for at in sorted(ends(stretch))]


def jain(rates):
    """Jain's index of fairness: 1 where all rates are equal, 1 / n where one of n has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def quantile(ordered, part):
    """The value below which `part` of the sorted values lie (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
