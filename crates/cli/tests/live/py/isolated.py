"""One of several copies that take the same names on different hosts at the same time.

Each takes every name exclusively, answers with its host's name on port 8000, asks every host of
the run by name over IPv4 and IPv6, and ends when all have been asked and all have asked it. So
all copies have been up together, and each met the right ones.
"""

import ctypes
import os
import socket
import sys
import threading

own = os.environ["LONGHAUL_HOST"]
everyone = os.environ["LONGHAUL_HOSTS"].split()
assert socket.gethostname() == own, f"host name {socket.gethostname()}"


def exclusively(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run"):
    if os.path.isdir(folder) and os.access(folder, os.W_OK):
        exclusively(f"{folder}/the-same-file")
os.mkdir("data")
exclusively("data/state")

by_path = socket.socket(socket.AF_UNIX)
by_path.bind("/tmp/server.sock")
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0longhaul-the-same-server")

libc = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_EXCL = 0o1000, 0o2000
if libc.shmget(0x4C48, 4096, IPC_CREAT | IPC_EXCL | 0o600) < 0:
    sys.exit(f"shmget: {os.strerror(ctypes.get_errno())}")
if libc.shm_open(b"/the-same-memory", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600) < 0:
    sys.exit(f"shm_open: {os.strerror(ctypes.get_errno())}")

server = socket.create_server(("", 8000), family=socket.AF_INET6, dualstack_ipv6=True)
asked_by = set()
complete = threading.Event()


def serve():
    while len(asked_by) < 2 * len(everyone):
        caller, _ = server.accept()
        with caller:
            name = caller.makefile().readline().strip()
            caller.sendall(own.encode() + b"\n")
            asked_by.add(name)
    complete.set()


threading.Thread(target=serve, daemon=True).start()
print("up", flush=True)

for host in everyone:
    for family in (socket.AF_INET, socket.AF_INET6):
        answers = socket.getaddrinfo(host, 8000, family, socket.SOCK_STREAM)
        assert len(answers) == 1, f"{host} has the addresses {answers}"
        for attempt in range(200):
            with socket.socket(family) as question:
                question.settimeout(5)
                try:
                    question.connect(answers[0][4])
                except ConnectionRefusedError:
                    threading.Event().wait(0.05)  # it is still starting
                    continue
                question.sendall(f"{own}/{family.name}\n".encode())
                answer = question.makefile().readline().strip()
                assert answer == host, f"{host} says that it is {answer}"
                break
        else:
            sys.exit(f"{host} never listened")

if not complete.wait(15):
    sys.exit(f"only these have asked: {sorted(asked_by)}")
print("done")
