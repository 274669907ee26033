"""Sends and receives bulk data the way a kernel with segmentation offload likes it.

offload.py serve PORT COUNT        takes COUNT connections, one after the other
offload.py send ADDRESS PORT BYTES [MSS] sends so many bytes over one, in segments of MSS
offload.py hear PORT COUNT         takes COUNT datagrams, or what comes within 5 s
offload.py count PORT              counts datagrams until none comes for 3 s
offload.py pace ADDRESS PORT COUNT sends COUNT datagrams, three each millisecond or as it may
offload.py burst ADDRESS PORT      sends 3 bursts of 25 datagrams with one call each (UDP_SEGMENT)
offload.py steered SECONDS         waits so long for what comes to be led to certain CPUs

Prints one JSON object: what went through, as a hash; how many frames the interface carried; and
the kernel's counters of TCP.
"""

import hashlib
import json
import random
import socket
import sys
import time

UDP_SEGMENT = 103
SIZE, BURST, BURSTS = 1200, 25, 3


def frames(column):
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[column])


def counters():
    values = {}
    for name in ("snmp", "netstat"):
        with open(f"/proc/net/{name}") as file:
            lines = [line.split() for line in file]
        for names, numbers in zip(lines[::2], lines[1::2]):
            values.update(zip(names[1:], map(int, numbers[1:])))
    wanted = ("RetransSegs", "TCPOFOQueue", "InCsumErrors", "InErrs")
    return {name: values[name] for name in wanted}


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(port, count):
    total, digests = 0, []
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        print("ready", file=sys.stderr, flush=True)
        for _ in range(count):
            connection, _ = server.accept()
            digest = hashlib.sha256()
            with connection:
                while piece := connection.recv(1 << 18):
                    digest.update(piece)
                    total += len(piece)
                connection.sendall(b"!")
            digests.append(digest.hexdigest())
    return {"bytes": total, "digests": digests, "frames": frames(1)}


def send(address, port, count, mss=None):
    before = frames(9)
    data = random.Random(count).randbytes(count)
    with socket.socket(family(address)) as connection:
        connection.settimeout(40)
        if mss is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        connection.connect((address, port))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"!"
    return {"digest": hashlib.sha256(data).hexdigest(), "frames": frames(9) - before}


def hear(port, count):
    seen = []
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        receiver.bind(("::", port))
        receiver.settimeout(5)
        print("ready", file=sys.stderr, flush=True)
        while len(seen) < count:
            try:
                seen.append(receiver.recv(65536))
            except TimeoutError:
                break
    digests = [hashlib.sha256(datagram).hexdigest() for datagram in seen]
    return {"sizes": [len(datagram) for datagram in seen], "digests": digests}


def count(port):
    seen = 0
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        receiver.bind(("::", port))
        print("ready", file=sys.stderr, flush=True)
        receiver.settimeout(20)
        try:
            while receiver.recv(65536):
                receiver.settimeout(3)
                seen += 1
        except TimeoutError:
            pass
    return {"datagrams": seen}


def pace(address, port, count):
    with socket.socket(family(address), socket.SOCK_DGRAM) as sender:
        for number in range(count):
            sender.sendto(bytes(SIZE), (address, port))
            if number % 3 == 2:
                time.sleep(0.001)
    return {"datagrams": count}


def burst(address, port):
    before = frames(9)
    data = random.Random(1).randbytes(SIZE * BURST - 500)
    with socket.socket(family(address), socket.SOCK_DGRAM) as sender:
        sender.setsockopt(17, UDP_SEGMENT, SIZE)
        for _ in range(BURSTS):
            assert sender.sendto(data, (address, port)) == len(data)
    pieces = [data[at : at + SIZE] for at in range(0, len(data), SIZE)] * BURSTS
    digests = [hashlib.sha256(piece).hexdigest() for piece in pieces]
    return {"sizes": list(map(len, pieces)), "digests": digests, "frames": frames(9) - before}


def steered(seconds):
    path, mask = "/sys/class/net/eth0/queues/rx-0/rps_cpus", 0
    end = time.monotonic() + seconds
    while mask == 0 and time.monotonic() < end:
        time.sleep(0.02)
        with open(path) as file:
            mask = int(file.read().replace(",", ""), 16)
    return {"steered": mask != 0}


what, *arguments = sys.argv[1:]
arguments = [int(word) if word.isdigit() else word for word in arguments]
programs = {f.__name__: f for f in (serve, send, hear, count, pace, burst, steered)}
result = programs[what](*arguments)
print(json.dumps({**result, "tcp": counters()}))
