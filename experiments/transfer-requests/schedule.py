"""The two transport services of this experiment: `schedule.py` writes ts1.csv and ts2.csv.

A request has a volume, a release time, a deadline and a maximum rate; it is answered by whether
it is satisfied, when it starts, at which rate, and when it is finished. All requests of a set
share one access link of CAPACITY.

TS1 starts each request at its release and leaves the rest to the network. It is planned as fair
sharing of a fluid: at any time all have the same rate, but none more than its maximum.

TS2 answers in the order of releases: a request gets its maximum rate, or the link's, from the
earliest time at which the link has that rate free until its end. What would miss its deadline is
refused. Requests that could fill the link follow one another.

The plan knows nothing of headers, slow start and losses, which CAPACITY leaves room for.

Machines do not start at one instant: a transfer begins within a round trip of its planned start, at random.
"""

import csv
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
# Payload per second that is planned with, of the 954 Mbit/s that 1 Gbit/s of frames carry.
CAPACITY = 900e6
ROUND_TRIP = 0.1
SETS = ["pair", "many"]
SERVICES = ["ts1", "ts2"]


def requests(name):
    """The requests of a set, numbers as such, in the order of their releases."""
    with open(HERE / "requests.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == name]
    number = lambda text: int(text) if text.isdigit() else text
    rows = [{name: number(text) for name, text in row.items()} for row in rows]
    return sorted(rows, key=lambda row: (row["release_s"], row["request"]))


def shares(limits, capacity):
    """Max-min fair rates under limits of their own."""
    rates, left = [0.0] * len(limits), capacity
    for count, index in enumerate(sorted(range(len(limits)), key=lambda i: limits[i])):
        rates[index] = min(limits[index], left / (len(limits) - count))
        left -= rates[index]
    return rates


def answer(request, start, finish):
    """What a service says to a request; never satisfied without a start."""
    rate = request["volume_bytes"] * 8 / (finish - start) if finish else None
    return {"satisfied": bool(finish) and finish <= request["deadline_s"], "start_s": start, "rate_bps": rate, "finish_s": finish}


def ts1(asked):
    """Everything at once."""
    left = [request["volume_bytes"] * 8.0 for request in asked]
    finish = [None] * len(asked)
    now = 0.0
    while None in finish:
        ready = [i for i, end in enumerate(finish) if end is None and asked[i]["release_s"] <= now]
        rates = shares([asked[i]["max_rate_bps"] for i in ready], CAPACITY)
        ends = [now + left[i] / rate for i, rate in zip(ready, rates)]
        coming = [request["release_s"] for request in asked if request["release_s"] > now]
        after = min(ends + coming)
        for i, rate, end in zip(ready, rates, ends):
            left[i] -= rate * (after - now)
            if end <= after:
                finish[i] = after
        now = after
    return [answer(request, request["release_s"], end) for request, end in zip(asked, finish)]


def ts2(asked):
    """One after the other where they would fill the link."""
    taken, answers = [], []
    for request in asked:
        rate = min(request["max_rate_bps"], CAPACITY)
        lasts = request["volume_bytes"] * 8 / rate
        # What is free changes for the better where a transfer ends.
        times = sorted({request["release_s"], *(end for _, end, _ in taken if end > request["release_s"])})
        is_free = lambda start: all(
            rate + sum(r for a, b, r in taken if a <= at < b) <= CAPACITY * (1 + 1e-9)
            for at in [start, *(a for a, _, _ in taken if start < a < start + lasts)]
        )
        start = next(start for start in times if is_free(start))
        if start + lasts > request["deadline_s"]:
            answers.append(answer(request, None, None))
            continue
        taken.append((start, start + lasts, rate))
        answers.append(answer(request, start, start + lasts))
    return answers


PLANS = {"ts1": ts1, "ts2": ts2}


def flows(service):
    """The lines of a service's file of flows, those of each set on hosts of its own."""
    lines = ["start_s,from,to,bytes,rate_bps"]
    for name in SETS:
        asked = requests(name)
        for request, said in zip(asked, PLANS[service](asked)):
            if said["start_s"] is None:
                continue
            rate = request["max_rate_bps"] if service == "ts1" else said["rate_bps"]
            ends = [f"{name}-{service}-{request[end]}" for end in ("from", "to")]
            start = said["start_s"] + random.Random(ends[0]).uniform(0, ROUND_TRIP)
            lines.append(f"{start:.6f},{','.join(ends)},{request['volume_bytes']},{round(rate)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for service in SERVICES:
        (HERE / f"{service}.csv").write_text(flows(service))
