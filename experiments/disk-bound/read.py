"""Writes a file of so many MB, then reads it past the page cache: `read.py MB`.

reads.csv has the time at which each block had come.
"""

import csv
import mmap
import os
import sys
import time

BLOCK = 256 << 10


def main():
    size = int(sys.argv[1]) * 1_000_000 // BLOCK * BLOCK
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    with open("data", "wb") as file:
        for _ in range(size // BLOCK):
            file.write(block)
        os.fsync(file.fileno())
    file = os.open("data", os.O_RDONLY | os.O_DIRECT)
    times, begun = [], time.monotonic_ns()
    while os.readv(file, [block]) == BLOCK:
        times.append(time.monotonic_ns() - begun)
    os.close(file)
    os.unlink("data")
    with open("reads.csv", "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["bytes", "elapsed_ns"])
        rows.writerows([(number + 1) * BLOCK, elapsed] for number, elapsed in enumerate(times))


main()
