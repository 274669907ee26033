"""Reads a file of so many MiB again and again: `scan.py MIB TIMES`.

passes.csv has the time that each reading took, and what of the file was in memory before it.
"""

import csv
import os
import sys
import time

BLOCK = 64 << 10


def scan(file):
    """Reads the whole file."""
    os.lseek(file, 0, os.SEEK_SET)
    while os.read(file, BLOCK):
        pass


def main():
    size, times = int(sys.argv[1]) << 20, int(sys.argv[2])
    block = os.urandom(BLOCK)
    file = os.open("data", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for _ in range(size // BLOCK):
        os.write(file, block)
        # As it goes, so that it never takes more memory than there is.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    with open("passes.csv", "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["pass", "bytes", "elapsed_ns"])
        for number in range(times):
            begun = time.monotonic_ns()
            scan(file)
            rows.writerow([number, size, time.monotonic_ns() - begun])
    os.unlink("data")


main()
