"""What travels on a segment.

    lan.py hear [join]    says all that it hears, one `TEXT TTL` a line, until it hears `end`
    lan.py say NAME...    a broadcast, multicasts of both families, then `end` to each NAME
"""

import selectors
import socket
import struct
import sys

IP_RECVTTL = 12  # of Linux; the module does not have it everywhere
PORT = 7000
GROUP4 = "239.1.1.1"
GROUPS6 = ["ff02::4c48", "ff05::4c48"]


def hear(join):
    four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    four.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    four.bind(("", PORT))
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    six.bind(("::", PORT))
    if join:
        request = socket.inet_aton(GROUP4) + socket.inet_aton("0.0.0.0")
        four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        for group in GROUPS6:
            request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", 0)
            six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    print("ready", flush=True)
    waiting = selectors.DefaultSelector()
    for one in (four, six):
        waiting.register(one, selectors.EVENT_READ)
    ended = set()
    while len(ended) < 2:
        events = waiting.select(20)
        if not events:
            sys.exit("nothing for a long time")
        for key, _ in events:
            text, ancillary, _, _ = key.fileobj.recvmsg(100, 100)
            ttl = struct.unpack("@i", ancillary[0][2][:4])[0]
            print(text.decode(), ttl, flush=True)
            if text == b"end":
                ended.add(key.fd)


def say(names):
    four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    four.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    four.sendto(b"everybody", ("255.255.255.255", PORT))
    four.sendto(b"group4", (GROUP4, PORT))
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for group in GROUPS6:
        six.sendto(group.encode(), (group, PORT))
    # What comes to a host comes in order, so nothing is under way to it after these.
    for name in names:
        four.sendto(b"end", socket.getaddrinfo(name, PORT, socket.AF_INET)[0][4])
        six.sendto(b"end", socket.getaddrinfo(name, PORT, socket.AF_INET6)[0][4])


if sys.argv[1] == "hear":
    hear("join" in sys.argv)
else:
    say(sys.argv[2:])
