"""Programs whose traffic and use of CPUs is known: record.py datagrams|serve|send|burn …. Standard library only."""

import os
import socket
import sys
import time

PORT = 5000


def wait_for(name):
    """Until the test has made this file in the working folder."""
    print(f"waits for {name}", flush=True)
    while not os.path.exists(name):
        time.sleep(0.005)


def datagrams(host, *rounds):
    """For each COUNTxBYTESxGAP_US waits for the file go-N, then sends."""
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for number, text in enumerate(rounds):
        count, size, gap_us = map(int, text.split("x"))
        wait_for(f"go-{number}")
        start = time.monotonic()
        for index in range(count):
            left = start + index * gap_us / 1e6 - time.monotonic()
            if left > 0:
                time.sleep(left)
            to.sendto(bytes(size), (host, PORT))
        print(f"sent {number}", flush=True)
    time.sleep(0.3)


def drain():
    """Takes datagrams, so that no errors come back."""
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("", PORT))
    print("ready", flush=True)
    while True:
        sink.recv(1 << 16)


def serve():
    """Takes one connection to its end, and says how many bytes came."""
    listener = socket.create_server(("", PORT))
    print("ready", flush=True)
    peer, _ = listener.accept()
    count = 0
    while part := peer.recv(1 << 16):
        count += len(part)
    print(f"received {count}", flush=True)


def send(host, size):
    """Sends so many bytes over one connection, and waits until all of them are taken."""
    peer = socket.create_connection((host, PORT))
    peer.sendall(bytes(int(size)))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)


def burn(seconds):
    """Takes so much of a CPU, then rests long enough to be looked at."""
    while time.process_time() < float(seconds):
        sum(range(10_000))
    print(f"burnt {time.process_time()}", flush=True)
    time.sleep(0.6)


globals()[sys.argv[1]](*sys.argv[2:])
