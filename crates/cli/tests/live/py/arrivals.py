"""Receives datagrams on PORT until a second passes without one; prints when the kernel got each."""

import json
import socket
import struct
import sys

SO_TIMESTAMPNS = 35

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
receiver.bind(("", int(sys.argv[1])))
receiver.settimeout(20)
print("ready", file=sys.stderr, flush=True)
arrivals = []
try:
    while True:
        _, control, _, _ = receiver.recvmsg(2048, 128)
        receiver.settimeout(1)
        seconds, ns = struct.unpack("=qq", control[0][2][:16])
        arrivals.append(seconds * 1_000_000_000 + ns)
except TimeoutError:
    pass
print(json.dumps({"arrivals_s": [(ns - arrivals[0]) / 1e9 for ns in arrivals]}))
