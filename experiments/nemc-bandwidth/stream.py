"""Streams over TCP through a link of changing delay; the receiver takes the rate.

    stream.py receive
    stream.py send HOST --link LINK --delays 0-1600/50 --warm 0.2 --measure 0.5 --rounds 3

The sender goes through the delays (microseconds), sets each one through the run's control socket
and fills one connection for `warm` and `measure` seconds. It writes `sent.csv`: bytes, the largest
window that the receiver has offered, and the smallest round trip that TCP has seen. The receiver
writes `received.csv`: all bytes, and those that arrived after `warm` seconds with the time they
took.
"""

import argparse
import json
import os
import socket
import struct
import time

PORT = 5001
BLOCK_BYTES = 1 << 16
# struct tcp_info of linux/tcp.h
TCP_INFO_BYTES, TOTAL_RETRANS, MIN_RTT, SND_WND = 232, 100, 148, 228


def receive():
    listener = socket.create_server(("", PORT))
    listener.settimeout(10)  # a sender that fails must not hold the run
    print("ready", flush=True)
    with open("received.csv", "w") as file:
        file.write("number,bytes,measured_bytes,measured_ns\n")
        number = 0
        while True:
            connection, _ = listener.accept()
            connection.settimeout(10)
            with connection:
                head = connection.recv(8, socket.MSG_WAITALL)
                if not head:
                    return
                (warm_ns,) = struct.unpack("!Q", head)
                counted = take(connection, warm_ns)
                connection.sendall(b"!")
            print(number, *counted, sep=",", file=file, flush=True)
            number += 1


def take(connection, warm_ns):
    """Reads to the end: bytes, bytes after `warm_ns`, and the nanoseconds that those took."""
    buffer, total, mark = bytearray(1 << 18), 0, None
    start = last = time.monotonic_ns()
    while count := connection.recv_into(buffer):
        last = time.monotonic_ns()
        total += count
        if mark is None and last - start >= warm_ns:
            mark = (last, total)
    since, before = mark or (start, 0)
    return total, total - before, last - since


def control(link, **values):
    """Changes a link of the run that this program is part of."""
    # The folder by its descriptor: a socket's path has room for 107 bytes only.
    folder = os.open(os.environ["LONGHAUL_RUN"], os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as run:
        run.connect(f"/proc/self/fd/{folder}/control.sock")
        run.send(json.dumps({"set": {"link": link, "values": values}}).encode())
        answer = json.loads(run.recv(65536))
    os.close(folder)
    if "set" not in answer:
        raise SystemExit(f"cannot set {link}: {answer}")


def fill(host, warm_s, seconds):
    """One connection: bytes, the largest window in bytes, the smallest round trip in us."""
    block, total, window = bytes(BLOCK_BYTES), 0, 0
    with socket.create_connection((host, PORT), timeout=10) as stream:
        stream.sendall(struct.pack("!Q", int(warm_s * 1e9)))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stream.sendall(block)
            total += len(block)
            info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
            window = max(window, struct.unpack_from("I", info, SND_WND)[0])
        stream.shutdown(socket.SHUT_WR)
        stream.recv(1)  # the receiver has everything
        info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    return total, window, *(struct.unpack_from("I", info, at)[0] for at in (MIN_RTT, TOTAL_RETRANS))


def numbers(text):
    """`0-20,50-1600/50`: whole numbers, and ranges with a step."""
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        yield from range(int(low), int(high or low) + 1, int(step or 1))


def send(options):
    with open("sent.csv", "w") as file:
        file.write("number,round,delay_us,bytes,window_bytes,min_rtt_us,retransmits\n")
        number = 0
        for turn in range(options.rounds):
            for delay_us in numbers(options.delays):
                control(options.link, delay=f"{delay_us} us")
                counted = fill(options.host, options.warm, options.warm + options.measure)
                print(number, turn, delay_us, *counted, sep=",", file=file, flush=True)
                number += 1
    # A connection without a word ends the receiver.
    socket.create_connection((options.host, PORT)).close()
    print(f"{number} streams")


parser = argparse.ArgumentParser()
roles = parser.add_subparsers(dest="role", required=True)
roles.add_parser("receive")
to = roles.add_parser("send")
to.add_argument("host")
to.add_argument("--link", required=True)
to.add_argument("--delays", required=True)
to.add_argument("--warm", type=float, required=True)
to.add_argument("--measure", type=float, required=True)
to.add_argument("--rounds", type=int, default=1)
given = parser.parse_args()
if given.role == "receive":
    receive()
else:
    send(given)
