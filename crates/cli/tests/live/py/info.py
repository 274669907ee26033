"""Asks the information service of its host: info.py MODE.

`ask` checks what each path gets, `hostile` sends what is no request and hangs up in the middle,
`spin` uses its CPU. Prints `done`, or what is wrong.
"""

import http.client
import json
import os
import socket
import sys
import time

PATH = os.environ["LONGHAUL_INFO"]


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def connect():
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(PATH)
    return client


class Info(http.client.HTTPConnection):
    def connect(self):
        self.sock = connect()


def get(path, method="GET"):
    info = Info("localhost")
    info.request(method, path)
    answer = info.getresponse()
    return answer.status, json.load(answer)


def ask():
    status, run = get("/hosts")
    check(status == 200 and run["experiment"] == "asked", run)
    hosts = {host["name"]: host for host in run["hosts"]}
    check(list(hosts) == ["a", "b", "idle"], hosts)
    check(hosts["b"]["ipv4"] == "10.0.0.2", hosts["b"])
    # CPU time is known after a second's end.
    while hosts["b"]["load"]["cpu_s"] == 0 or hosts["b"]["load"]["cpus_used"] == 0:
        time.sleep(0.2)
        hosts = {host["name"]: host for host in get("/hosts")[1]["hosts"]}
    check(hosts["b"]["load"]["busy"] and hosts["b"]["load"]["programs"] == ["spin"], hosts["b"])
    check(not hosts["idle"]["load"]["busy"] and hosts["idle"]["load"]["cpu_s"] == 0, hosts["idle"])
    cpus = set(hosts["b"]["place"]["cpus"])
    check(os.sched_getaffinity(0) <= cpus, cpus)
    check(get("/self")[1]["name"] == "a", get("/self"))
    check(get("/hosts/idle")[1]["ipv4"] == "10.0.0.3", get("/hosts/idle"))
    for path, method, status in [("/", "GET", 404), ("/hosts/x", "GET", 404), ("/hosts", "PUT", 405)]:
        check(get(path, method)[0] == status, path)


def hostile():
    silent = [connect() for _ in range(4)]
    for junk in [b"\0" * 4096, b"GET /hosts", b"\n\n", b"x" * 100_000, b""]:
        client = connect()
        try:
            client.sendall(junk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        client.close()
    for _ in range(200):
        client = connect()
        client.sendall(b"GET /hosts HTTP/1.1\r\n\r\n")
        client.close()
    # Those that have hung up leave their places.
    deadline = time.monotonic() + 10
    while True:
        try:
            check(get("/self")[0] == 200, "an answer")
            break
        except (ConnectionError, http.client.HTTPException) as error:
            check(time.monotonic() < deadline, error)
            time.sleep(0.01)
    del silent


def spin():
    print("up", flush=True)
    while True:
        pass


{"ask": ask, "hostile": hostile, "spin": spin}[sys.argv[1]]()
print("done")
