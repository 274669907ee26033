"""A path whose middle carries less than its ends. Without HOST: an echo server on port 9.

With HOST: datagrams larger than any MTU arrive whole in both families; a datagram that must not
be fragmented is refused by the host's own kernel once it knows the path, whose MTU is given.
"""

import errno
import select
import socket
import sys
import time

IP_MTU_DISCOVER, IP_MTU, IPV6_MTU_DISCOVER, IPV6_MTU = 10, 14, 23, 24
DONT, WANT, DO = 0, 1, 2
OPTIONS = {
    socket.AF_INET: (socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_MTU, 28),
    socket.AF_INET6: (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_MTU, 48),
}


def udp(family, discover):
    level, option, _, _ = OPTIONS[family]
    made = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.setsockopt(level, option, discover)
    return made


if len(sys.argv) == 1:
    servers = [udp(family, DONT) for family in OPTIONS]
    for server in servers:
        server.bind(("", 9))
    print("ready", flush=True)
    while True:
        for server in select.select(servers, [], [])[0]:
            data, peer = server.recvfrom(65535)
            server.sendto(data, peer)

host, mtu = sys.argv[1], int(sys.argv[2])
for family, (level, _, path_mtu, headers) in OPTIONS.items():
    target = socket.getaddrinfo(host, 9, family, socket.SOCK_DGRAM)[0][4]

    large = udp(family, DONT)
    large.connect(target)
    large.settimeout(0.5)
    payload = bytes(range(250)) * 12
    # IPv6 routers fragment nothing, so the first of each direction only teach the hosts.
    for attempt in range(1, 9):
        large.send(payload)
        try:
            if large.recv(65535) != payload:
                sys.exit(f"{family.name}: the datagram came back changed")
            break
        except TimeoutError:
            pass
    else:
        sys.exit(f"{family.name}: no datagram of 3000 bytes came back")
    print(family.name, "attempts", attempt)

    whole = udp(family, DO)
    whole.connect(target)
    for _ in range(20):
        try:
            whole.send(bytes(1500 - headers))
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            break
        time.sleep(0.1)
    else:
        sys.exit(f"{family.name}: the kernel never learnt the path's MTU")
    found = whole.getsockopt(level, path_mtu)
    if found != mtu:
        sys.exit(f"{family.name}: path MTU {found} instead of {mtu}")
