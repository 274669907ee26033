"""Takes an amount of a resource, and says how it went: `hungry.py cpu SECONDS`, `memory MIB [SECONDS]`,
`ask MIB`, `read FILE MIB`.

`cpu` prints its share of a CPU and the longest time that it was not run; `memory` says after each MiB how
many it has, and holds them for SECONDS; `ask` wants all
of them at once; `read` reads a file past the page cache and prints the seconds that it took.
"""

import json
import mmap
import os
import sys
import time


def cpu(seconds):
    begun, used, last, longest = time.monotonic(), time.process_time(), time.monotonic(), 0
    while last - begun < seconds:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return {"share": (time.process_time() - used) / (last - begun), "longest": longest}


def memory(mib, seconds=0):
    held = []
    for number in range(mib):
        held.append(b"x" * (1 << 20))
        print(number + 1, flush=True)
    time.sleep(seconds)
    return {"held": len(held)}


def ask(mib):
    return {"held": len(bytes(mib << 20))}


def read(path, mib):
    with open(path, "wb") as file:
        file.write(os.urandom(mib << 20))
        os.fsync(file.fileno())
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    part = mmap.mmap(-1, 256 << 10)
    begun, got = time.monotonic(), 0
    while got < mib << 20:
        got += os.readv(file, [part])
    return {"seconds": time.monotonic() - begun, "bytes": got}


what, *rest = sys.argv[1:]
print(json.dumps({"cpu": lambda s: cpu(float(s)), "memory": lambda m, s=0: memory(int(m), float(s)),
                  "ask": lambda m: ask(int(m)),
                  "read": lambda f, m: read(f, int(m))}[what](*rest)), flush=True)
