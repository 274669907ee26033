"""Prints the address of every router on the way to HOST, then HOST's own, one to a line.

Datagrams with a growing hop limit; the error queue says who returned each.
"""

import select
import socket
import struct
import sys

family = socket.AF_INET6 if sys.argv[2] == "6" else socket.AF_INET
target = socket.getaddrinfo(sys.argv[1], 33434, family, socket.SOCK_DGRAM)[0][4]
IP_RECVERR, IPV6_RECVERR = 11, 25
MSG_ERRQUEUE = 0x2000
EXTENDED_ERROR = "=IBBBBII"

for hops in range(1, 20):
    probe = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        probe.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
    else:
        probe.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
    probe.sendto(b"longhaul" * 4, target)
    errors = select.poll()
    errors.register(probe, select.POLLERR)
    if not errors.poll(3000):
        sys.exit(f"nobody answered at {hops} hops")
    _, control, _, _ = probe.recvmsg(512, 512, MSG_ERRQUEUE)
    _, _, kind = control[0]
    size = struct.calcsize(EXTENDED_ERROR)
    _, _, icmp_type, icmp_code, _, _, _ = struct.unpack(EXTENDED_ERROR, kind[:size])
    offender = kind[size:]
    if family == socket.AF_INET:
        address = socket.inet_ntop(family, offender[4:8])
        expired = (icmp_type, icmp_code) == (11, 0)
    else:
        address = socket.inet_ntop(family, offender[8:24])
        expired = (icmp_type, icmp_code) == (3, 0)
    print(address)
    if address == target[0]:
        break
    if not expired:
        sys.exit(f"{address} answered with type {icmp_type}, code {icmp_code}")
