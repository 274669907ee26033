"""Sends COUNT echo requests to ADDRESS, 50 ms apart, and fails unless all are answered."""

import socket
import sys
import time

address, count = sys.argv[1], int(sys.argv[2])
v6 = ":" in address
family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
request, reply = (128, 129) if v6 else (8, 0)
ping = socket.socket(family, socket.SOCK_DGRAM, protocol)
ping.settimeout(2)
ping.connect((address, 0))
for number in range(count):
    begun = time.monotonic()
    # The kernel fills in identifier and checksum.
    ping.send(bytes([request, 0, 0, 0, 0, 0]) + number.to_bytes(2, "big") + b"longhaul" * 4)
    answer = ping.recv(2048)
    trip = time.monotonic() - begun
    if answer[0] != reply or answer[6:8] != number.to_bytes(2, "big") or answer[8:] != b"longhaul" * 4:
        sys.exit(f"wrong answer from {address}: {answer.hex()}")
    print(f"{trip:.6f}")
    time.sleep(0.05)
