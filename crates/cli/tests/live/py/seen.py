"""Prints what a program sees of its host's CPUs and memory, as JSON, while it holds 16 MiB."""

import json
import os
import socket
import subprocess
import time


def numbers(text):
    """A list of the kernel's, such as 0-2,5."""
    found = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def meminfo():
    lines = (line.split() for line in open("/proc/meminfo"))
    return {name.rstrip(":"): int(value) for name, value, *_ in lines}


def info():
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(os.environ["LONGHAUL_INFO"])
        client.sendall(b"GET /self HTTP/1.1\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


# Orphans that end all the time: the host's init, which reaps them, must not wait for a quiet second.
orphans = subprocess.Popen(["sh", "-c", "while :; do (sleep 0.05 &) ; sleep 0.1; done"], stdout=subprocess.DEVNULL)
held = bytearray(os.urandom(16 << 20))
deadline = time.monotonic() + 10
memory = meminfo()
while memory["MemTotal"] - memory["MemAvailable"] < 16 << 10 and time.monotonic() < deadline:
    time.sleep(0.1)
    memory = meminfo()
orphans.kill()
orphans.wait()
processors = [line.split(":")[1] for line in open("/proc/cpuinfo") if line.startswith("processor")]
print(
    json.dumps(
        {
            "affinity": sorted(os.sched_getaffinity(0)),
            "online": numbers(open("/sys/devices/system/cpu/online").read()),
            "cpuinfo": [int(number) for number in processors],
            "cpu_count": os.cpu_count(),
            "nproc": int(subprocess.run(["nproc"], capture_output=True, check=True).stdout),
            "meminfo": memory,
            "info": info()["resources"],
        }
    )
)
