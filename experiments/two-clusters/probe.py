"""Measures round trips to HOST: COUNT small UDP datagrams, one every INTERVAL seconds.

Writes probes.csv, one answered probe a line. Without HOST it is the other side, which sends every datagram back.
"""

import socket
import statistics
import sys
import time

PORT = 7

if len(sys.argv) == 1:
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("", PORT))
    while True:
        data, peer = echo.recvfrom(2048)
        echo.sendto(data, peer)

host, count, interval = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect((host, PORT))
sender.settimeout(1)
begun, trips, sent = time.monotonic(), [], []
for number in range(count):
    start = time.monotonic()
    sender.send(number.to_bytes(8, "big"))
    try:
        while int.from_bytes(sender.recv(64), "big") != number:
            pass
        trips.append(time.monotonic() - start)
        sent.append(start - begun)
    except TimeoutError:
        pass
    time.sleep(max(0, interval - (time.monotonic() - start)))
with open("probes.csv", "w") as file:
    file.write("sent_ns,rtt_ns\n")
    file.writelines(f"{at * 1e9:.0f},{trip * 1e9:.0f}\n" for at, trip in zip(sent, trips))
if not trips:
    sys.exit(f"no answer from {host}")
print(
    f"{host}: {len(trips)} of {count} answered, round trip "
    f"min {min(trips) * 1e3:.2f} / median {statistics.median(trips) * 1e3:.2f} / "
    f"max {max(trips) * 1e3:.2f} ms"
)
