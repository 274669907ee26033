"""Fetches http://HOST/file, checks every byte's count and prints the rate."""

import sys
import time
import urllib.request

host = sys.argv[1]
start = time.monotonic()
with urllib.request.urlopen(f"http://{host}/file") as response:
    expected = int(response.headers["Content-Length"])
    received = 0
    while block := response.read(1 << 18):
        received += len(block)
elapsed = time.monotonic() - start
if received != expected:
    sys.exit(f"got {received} of {expected} bytes")
print(f"{received / 1e6:.0f} MB from {host} in {elapsed:.2f} s: {received * 8 / elapsed / 1e6:.0f} Mbit/s")
