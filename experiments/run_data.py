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


def quantile(ordered, part):
    """The value below which `part` of the sorted values lie (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
