"""Computes what it is told to, then tells the next host: `exchange.py NEXT [--lead --rounds N --work S]`.

The leader finds out how many steps take it S seconds, and begins each round. Every host writes rounds.csv:
the time and the CPU time that its part of a round took, and how long the token was on its way to it.
All hosts read one clock, the machine's.
"""

import argparse
import csv
import json
import socket
import time

PORT = 7000


def compute(steps):
    """A chain of integer operations."""
    number = 1
    for _ in range(steps):
        number = (number * 1103515245 + 12345) & 0x7FFFFFFF
    return number


def steps_for(seconds):
    """How many steps take so much CPU time."""
    begun, steps = time.process_time(), 20_000
    compute(steps)
    return max(1, int(steps * seconds / (time.process_time() - begun)))


def connect(host):
    """A connection to the next host, which may not listen yet."""
    while True:
        try:
            link = socket.create_connection((host, PORT), timeout=5)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link
        except ConnectionRefusedError:
            time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("next")
    parser.add_argument("--lead", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--work", type=float, default=0)
    args = parser.parse_args()
    listener = socket.create_server(("", PORT))
    print("ready", flush=True)
    onward = connect(args.next) if args.lead else None
    hand_on = lambda token: onward.sendall((json.dumps(token) + "\n").encode())
    if args.lead:
        hand_on({"round": 0, "steps": steps_for(args.work), "sent": time.monotonic()})
    incoming = listener.accept()[0].makefile()
    with open("rounds.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["round", "elapsed_ns", "cpu_ns", "exchange_ns"])
        for line in incoming:
            token, begun, used = json.loads(line), time.monotonic_ns(), time.process_time_ns()
            compute(token["steps"])
            elapsed, cpu = time.monotonic_ns() - begun, time.process_time_ns() - used
            rows.writerow([token["round"], elapsed, cpu, begun - int(token["sent"] * 1e9)])
            file.flush()
            if args.lead:
                token["round"] += 1
                if token["round"] == args.rounds:
                    return
            onward = onward or connect(args.next)
            hand_on(token | {"sent": time.monotonic()})


main()
