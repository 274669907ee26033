"""Datagrams that must not be fragmented. `serve`: an echo server on port 9 in both families.

`probe NEAR FAR`: long ones come back from NEAR; who returns one on its way to FAR, with which MTU.
"""

import json
import select
import socket
import struct
import sys

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, IP_RECVERR, IPV6_RECVERR = 10, 23, 11, 25
DO, MSG_ERRQUEUE, EMSGSIZE = 2, 0x2000, 90
EXTENDED_ERROR = "=IBBBBII"


def whole(family):
    made = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, DO)
        made.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    else:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, DO)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
    made.settimeout(3)
    return made


def serve():
    servers = [whole(family) for family in (socket.AF_INET, socket.AF_INET6)]
    for server in servers:
        server.bind(("", 9))
    print("ready", flush=True)
    while True:
        for server in select.select(servers, [], [])[0]:
            data, peer = server.recvfrom(65535)
            server.sendto(data, peer)


def connect(family, host):
    made = whole(family)
    made.connect(socket.getaddrinfo(host, 9, family, socket.SOCK_DGRAM)[0][4])
    return made


def echoed(family, host):
    near, lengths = connect(family, host), []
    for length in (8000, 8900):
        payload = bytes(range(250)) * 36
        near.send(payload[:length])
        if near.recv(65535) != payload[:length]:
            sys.exit(f"{family.name}: {length} bytes came back changed")
        lengths.append(length)
    return lengths


def refused(family, host):
    far = connect(family, host)
    far.send(bytes(8000))
    errors = select.poll()
    errors.register(far, select.POLLERR)
    if not errors.poll(3000):
        sys.exit(f"{family.name}: nobody said that 8000 bytes are too long")
    _, control, _, _ = far.recvmsg(9000, 512, MSG_ERRQUEUE)
    _, _, kind = control[0]
    size = struct.calcsize(EXTENDED_ERROR)
    errno, _, _, _, _, mtu, _ = struct.unpack(EXTENDED_ERROR, kind[:size])
    if errno != EMSGSIZE:
        sys.exit(f"{family.name}: error {errno} instead of EMSGSIZE")
    offender = kind[size:]
    raw = offender[4:8] if family == socket.AF_INET else offender[8:24]
    return {"refused_by": socket.inet_ntop(family, raw), "mtu": mtu}


def fragments():
    """Fragments that this host has made or put together."""
    with open("/proc/net/snmp") as file:
        names, values = [line.split()[1:] for line in file if line.startswith("Ip:")]
    counts = dict(zip(names, map(int, values)))
    with open("/proc/net/snmp6") as file:
        counts |= {name: int(value) for name, value in map(str.split, file)}
    kinds = ("FragCreates", "ReasmReqds", "Ip6FragCreates", "Ip6ReasmReqds")
    return sum(counts[kind] for kind in kinds)


if sys.argv[1] == "serve":
    serve()
near, far = sys.argv[2:]
report = {
    name: {"echoed": echoed(family, near), **refused(family, far)}
    for name, family in (("4", socket.AF_INET), ("6", socket.AF_INET6))
}
print(json.dumps({**report, "fragments": fragments()}))
