"""What partitions cost, counted from runs in virtual time, with the costs of the paper's machines.

A partition says which core owns each node and, with it, all pipes that leave the node. One run on one core
counts for every partition, because the results of a run do not depend on it:

    load of a core = (0.5 us * hops + 4 us * packets that its hosts send or receive
                      + 4 us * packets that it hands to another core or takes from one) / second

Sending into a core and leaving it is 8 us together, and so is a crossing, half on each side.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import run_data

HOP, END, SIDE = 0.5e-6, 4e-6, 4e-6
HERE = pathlib.Path(__file__).resolve().parent


def program():
    """The `longhaul` that ran the experiment."""
    built = HERE.parents[1] / "target/release/longhaul"
    found = os.environ.get("LONGHAUL") or (built if built.exists() else shutil.which("longhaul"))
    run_data.claim(found, "`longhaul` is missing: make build")
    return found


def longhaul(*words):
    """What `longhaul` prints; ends the program where it fails."""
    done = subprocess.run([program(), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"longhaul {' '.join(map(str, words))}:\n{done.stderr}")
    return done.stdout


def is_host(node):
    """Clients are called c0, c1 and so on in the Internet-like graph, and h0, h1 in trees."""
    return node[0] in "ch"


class Counted:
    """A network with the counts of its run."""

    def __init__(self, file, folder, *options):
        self.file, self.folder, self.options = file, pathlib.Path(folder), options
        self.whole = run_data.summary(folder)
        # By pipe: its ends, packets that came out, and those that a host sent into it or had from it.
        self.pipes = []
        for pipe in self.whole["pipes"]:
            ends = pipe["name"].split("#")[0].split(">")
            packets = pipe["packets"]
            self.pipes.append((*ends, packets, packets * is_host(ends[0]), packets * is_host(ends[1])))
        self.seconds = self.whole["simulated_s"]
        self.entered = self.whole["packets"]["entered"] + self.whole["packets"]["created"]

    def cost(self, cores, owner):
        """Efficiency, crossings, and the load of each core."""
        loads, crossings = [0.0] * cores, 0
        for start, end, packets, sent, received in self.pipes:
            here, there = owner[start], owner[end]
            loads[here] += packets * HOP + sent * END
            loads[there] += received * END
            if here != there:
                crossings += packets
                loads[here] += packets * SIDE
                loads[there] += packets * SIDE
        return self.entered / (self.entered + crossings), crossings, [load / self.seconds for load in loads]

    def through(self):
        """By router: packets a second that leave it."""
        sums = {}
        for start, _, packets, _, _ in self.pipes:
            if not is_host(start):
                sums[start] = sums.get(start, 0) + packets / self.seconds
        return sums

    def split(self, cores, method, weights, seed):
        """A partition by nodes: its cores by name, and what it is expected to cost."""
        path = self.folder / "partition.json"
        options = ["--cores", cores, "--method", method, "--weights", weights, "--seed", seed, "--costs", "paper"]
        said = longhaul("partition", self.file, *self.options, *options, "--save", path, "--json")
        return json.loads(path.read_text())["owner"], json.loads(said)

    def by_link(self, cores, method, weights, seed):
        """What a partition of links is expected to cost, as in the paper."""
        options = ["--cores", cores, "--method", method, "--weights", weights, "--seed", seed, "--costs", "paper"]
        return json.loads(longhaul("partition", self.file, *self.options, *options, "--by", "link", "--json"))

    def confirm(self, owner):
        """Runs on as many cores as a partition has, whose own counters must say the same."""
        path = self.folder / "partition.json"
        cores = json.loads(path.read_text())["cores"]
        longhaul("run", self.file, "--partition", path, "--out", self.folder / "cores", "--force", "--quiet", *self.options)
        run = run_data.summary(self.folder / "cores")
        efficiency, crossings, _ = self.cost(cores, owner)
        counted = sum(core["cross_core"] for core in run["cores"])
        run_data.claim(run["trace_hash"] == self.whole["trace_hash"], "several cores gave another trace")
        run_data.claim(len(run["cores"]) == cores, f"{len(run['cores'])} cores ran, and not {cores}")
        run_data.claim(counted == 2 * crossings, f"cores counted {counted} crossings on both sides, pipes {crossings}")
        run_data.claim(abs(run["efficiency"] - efficiency) < 1e-12, f"efficiency {run['efficiency']} of the run")
