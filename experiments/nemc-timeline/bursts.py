"""Sends datagrams in patterns: `bursts.py send HOST COUNTxGAP… --rounds N`, and takes them: `bursts.py receive`.

A pattern is so many datagrams with so many microseconds between them (0: at once, which the kernel cuts from one
large one). Every 50 ms another one begins; each round has all of them.
"""

import argparse
import socket
import time

PORT = 5000
PAYLOAD_BYTES = 512
EVERY_S = 0.05
SOL_UDP, UDP_SEGMENT = 17, 103  # linux/udp.h


def receive():
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("", PORT))
    print("ready", flush=True)
    while True:
        sink.recv(2048)


def wait_until(due_s):
    """Sleeps for most of the time, for the kernel wakes nobody to the microsecond."""
    while (left := due_s - time.monotonic()) > 0:
        if left > 0.0003:
            time.sleep(left - 0.0002)


def send(host, patterns, rounds):
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to.connect((host, PORT))
    begin_s, sent = time.monotonic(), 0
    for turn in range(rounds * len(patterns)):
        count, gap_us = map(int, patterns[turn % len(patterns)].split("x"))
        start_s = begin_s + turn * EVERY_S
        to.setsockopt(SOL_UDP, UDP_SEGMENT, 0 if gap_us else PAYLOAD_BYTES)
        for index in range(count if gap_us else 1):
            wait_until(start_s + index * gap_us / 1e6)
            to.send(bytes(PAYLOAD_BYTES if gap_us else PAYLOAD_BYTES * count))
        sent += count
    time.sleep(0.1)
    print(f"sent {sent}")


parser = argparse.ArgumentParser()
roles = parser.add_subparsers(dest="role", required=True)
roles.add_parser("receive")
to = roles.add_parser("send")
to.add_argument("host")
to.add_argument("patterns", nargs="+")
to.add_argument("--rounds", type=int, default=1)
given = parser.parse_args()
if given.role == "receive":
    receive()
else:
    send(given.host, given.patterns, given.rounds)
