"""Sends numbered datagrams over a link of changing delay; the kernels of both hosts stamp them.

    packets.py receive
    packets.py send HOST --link LINK --delays 0-20,50-1600/50 --pattern 20x1000 --rounds 5

The sender goes through the delays (microseconds), sets each one through the run's control socket
and sends each pattern: COUNTxGAP, so many datagrams with so many microseconds between them (0: as
fast as possible). It writes `sent.csv`, the receiver `received.csv`, each in its working folder.

Both stamps are of the machine's one clock, so their difference is a true one-way latency: from the
driver of the sender's network card (SO_TIMESTAMPING) to the arrival in the receiver's kernel
(SO_TIMESTAMPNS). Neither contains the time that Python takes.
"""

import argparse
import json
import os
import socket
import struct
import time

PORT = 5000
PAYLOAD_BYTES = 512
END = (1 << 64) - 1  # the number of the datagram that asks the receiver for its count

# linux/net_tstamp.h, asm-generic/socket.h, linux/in.h, linux/socket.h
SO_TIMESTAMPNS, SO_TIMESTAMPING = 35, 37
TX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 11
IP_RECVERR, MSG_ERRQUEUE = 11, 0x2000


def nanoseconds(data):
    seconds, rest = struct.unpack_from("qq", data)
    return seconds * 1_000_000_000 + rest


def receive():
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sink.settimeout(10)  # a sender that fails must not hold the run
    sink.bind(("", PORT))
    print("ready", flush=True)
    arrivals = []
    while True:
        data, extra, _, peer = sink.recvmsg(2048, 64)
        (number,) = struct.unpack_from("!Q", data)
        if number == END:
            break
        arrivals.append((number, nanoseconds(extra[0][2])))
    with open("received.csv", "w") as file:
        file.write("number,received_ns\n")
        file.writelines(f"{number},{stamp}\n" for number, stamp in arrivals)
    sink.sendto(struct.pack("!Q", len(arrivals)), peer)


class Sender:
    """A socket whose datagrams are numbered, and stamped when they reach the network card."""

    def __init__(self, host):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        flags = TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        self.socket.connect((host, PORT))
        self.count = 0
        self.stamps = {}

    def send(self):
        self.socket.send(struct.pack("!Q", self.count).ljust(PAYLOAD_BYTES, b"\0"))
        self.count += 1

    def collect(self, patience_s=0.0):
        """Reads the kernel's stamps, waiting up to `patience_s` for those that are missing."""
        until = time.monotonic() + patience_s
        while len(self.stamps) < self.count:
            try:
                _, extra, _, _ = self.socket.recvmsg(0, 256, MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return
                time.sleep(0.001)
                continue
            data = {(level, kind): value for level, kind, value in extra}
            error = data[socket.IPPROTO_IP, IP_RECVERR]  # struct sock_extended_err
            (number,) = struct.unpack_from("I", error, 12)
            self.stamps[number] = nanoseconds(data[socket.SOL_SOCKET, SO_TIMESTAMPING])

    def pattern(self, count, gap_us):
        """Sends `count` datagrams; their numbers."""
        first, start = self.count, time.monotonic_ns()
        for index in range(count):
            due = start + index * gap_us * 1000
            while gap_us and (left := due - time.monotonic_ns()) > 0:
                if left > 300_000:
                    time.sleep((left - 200_000) / 1e9)
            self.send()
            if gap_us:
                self.collect()
        self.collect(patience_s=1.0)
        return range(first, self.count)

    def end(self):
        """Asks the receiver, again and again, how many it has; None if it does not answer."""
        self.socket.settimeout(0.2)
        for _ in range(25):
            try:
                self.socket.send(struct.pack("!Q", END))
                return struct.unpack("!Q", self.socket.recv(64))[0]
            except (TimeoutError, ConnectionRefusedError):
                pass
        return None


class Control:
    """The control socket of the run that this program is part of."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The folder by its descriptor: a socket's path has room for 107 bytes only.
        folder = os.open(os.environ["LONGHAUL_RUN"], os.O_PATH)
        self.socket.connect(f"/proc/self/fd/{folder}/control.sock")
        os.close(folder)

    def set(self, link, **values):
        self.socket.send(json.dumps({"set": {"link": link, "values": values}}).encode())
        answer = json.loads(self.socket.recv(65536))
        if "set" not in answer:
            raise SystemExit(f"cannot set {link}: {answer}")


def numbers(text):
    """`0-20,50-1600/50`: whole numbers, and ranges with a step."""
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        yield from range(int(low), int(high or low) + 1, int(step or 1))


def send(options):
    control, sender, rows = Control(), Sender(options.host), []
    for turn in range(options.rounds):
        for delay_us in numbers(options.delays):
            control.set(options.link, delay=f"{delay_us} us")
            for pattern in options.pattern:
                count, gap_us = map(int, pattern.split("x"))
                sent = sender.pattern(count, gap_us)
                rows += [(number, turn, delay_us, pattern) for number in sent]
                time.sleep(delay_us / 1e6 + 0.001)
    missing = sender.count - len(sender.stamps)
    if missing:
        raise SystemExit(f"the kernel has not stamped {missing} of {sender.count} datagrams")
    with open("sent.csv", "w") as file:
        file.write("number,round,delay_us,pattern,sent_ns\n")
        file.writelines(",".join(map(str, row)) + f",{sender.stamps[row[0]]}\n" for row in rows)
    received = sender.end()
    if received is None:
        raise SystemExit("the receiver does not answer")
    print(f"sent {sender.count}, received {received}")


parser = argparse.ArgumentParser()
roles = parser.add_subparsers(dest="role", required=True)
roles.add_parser("receive")
to = roles.add_parser("send")
to.add_argument("host")
to.add_argument("--link", required=True)
to.add_argument("--delays", required=True)
to.add_argument("--pattern", required=True, action="append")
to.add_argument("--rounds", type=int, default=1)
given = parser.parse_args()
if given.role == "receive":
    receive()
else:
    send(given)
