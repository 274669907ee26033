"""Who asks for which file when, and who has it: `requests.py` writes central.csv and peers.csv.

200 users in five segments ask for one of 5000 files, again and again, thinking for 30 s in the mean
(exponential). Files have 2 MB in the mean (exponential, each file its own size), and the k-th of
them is asked for in proportion to 1/k (Zipf).

central: the server sends every file. peers: who has had a file keeps it. A user who has it needs
no transfer; else it comes from someone in the same segment who has it, else from someone
elsewhere, else from the server. Who that is follows from times that assume RATE for each
transfer, since the answers must be known before the run; so both systems get the same requests at
the same times, and a slow answer does not put off its user's next request.

Left out: the peers' search for a file, changes of files, and the bounds of their disks.
"""

import itertools
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
SEGMENTS, USERS, FILES = 5, 40, 5000
MEAN_BYTES, MEAN_THINK_S, LASTS_S = 2e6, 30.0, 600.0
# Bits per second, below what a transfer gets as a rule.
RATE = 20e6
SERVER = None


def asked(lasts_s=LASTS_S):
    """All requests in order: (time in s, user as (segment, number), file), and the files' sizes."""
    draws = random.Random(4)
    sizes = [max(1, round(draws.expovariate(1 / MEAN_BYTES))) for _ in range(FILES)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(FILES)))
    requests = []
    for segment in range(SEGMENTS):
        for number in range(USERS):
            now = draws.expovariate(1 / MEAN_THINK_S)
            while now < lasts_s:
                (file,) = draws.choices(range(FILES), cum_weights=weights)
                requests.append((round(now, 3), (segment, number), file))
                now += sizes[file] * 8 / RATE + draws.expovariate(1 / MEAN_THINK_S)
    return sorted(requests), sizes


def sources(requests, sizes):
    """For each request who sends the file among peers: a user, the server, or the user itself."""
    draws, holders, found = random.Random(5), {}, []
    for now, user, file in requests:
        have = holders.setdefault(file, {})
        ready = sorted(who for who, since in have.items() if since <= now)
        near = [who for who in ready if who[0] == user[0]]
        if user in have:
            found.append(user)
        else:
            found.append(draws.choice(near or ready or [SERVER]))
            have[user] = now + sizes[file] * 8 / RATE
    return found


def lines(system):
    """The flows of a system."""
    requests, sizes = asked()
    senders = sources(requests, sizes) if system == "peers" else [SERVER] * len(requests)
    name = lambda who: f"{system[0]}-server" if who is SERVER else f"{system[0]}-u{who[0]}n{who[1]}"
    rows = ["start_s,from,to,bytes"]
    for (now, user, file), sender in zip(requests, senders):
        if sender != user:
            rows.append(f"{now:.3f},{name(sender)},{name(user)},{sizes[file]}")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    for system in ("central", "peers"):
        (HERE / f"{system}.csv").write_text(lines(system))
