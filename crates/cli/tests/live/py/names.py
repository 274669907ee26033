"""Asks the host's name server, without any resolver library: names.py MODE.

`few` checks what each kind of question gets, `all` asks for every host of the run both ways, `port`
serves port 53 of all addresses beside it. Prints `done`, or what is wrong.
"""

import ipaddress
import os
import socket
import struct
import sys

A, SOA, PTR, MX, AAAA, OPT, HTTPS = 1, 6, 12, 15, 28, 41, 65
DOMAIN = "longhaul.internal"


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def resolver():
    words = [line.split() for line in open("/etc/resolv.conf")]
    check(["search", DOMAIN] in words, words)
    [server] = [line[1] for line in words if line[:1] == ["nameserver"]]
    check(ipaddress.ip_address(server).is_loopback, server)
    return server


def packed(name):
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def skip(message, at):
    while message[at] and message[at] < 0xC0:
        at += 1 + message[at]
    return at + (2 if message[at] >= 0xC0 else 1)


def name_at(message, at):
    labels = []
    while message[at]:
        if message[at] >= 0xC0:
            at = (message[at] & 0x3F) << 8 | message[at + 1]
            continue
        labels.append(message[at + 1 : at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels)


def ask(server, name, kind, size=None):
    """The code of the answer, its data, and the kinds of its authority."""
    number = int.from_bytes(os.urandom(2), "big")
    extra = b"\0" + struct.pack("!HHIH", OPT, size, 0, 0) if size else b""
    head = struct.pack("!6H", number, 0x0100, 1, 0, 0, bool(extra))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect((server, 53))
        client.send(head + packed(name) + struct.pack("!HH", kind, 1) + extra)
        message = client.recv(4096)
    back, flags, questions, answers, authority, more = struct.unpack_from("!6H", message)
    check(back == number and flags & 0x8680 == 0x8480, f"{name}: {flags:#x}")
    check(len(message) <= 512 and more == bool(extra), f"{name}: {message!r}")
    at, data, kinds = 12, [], []
    for _ in range(questions):
        at = skip(message, at) + 4
    for number in range(answers + authority):
        at = skip(message, at)
        found, _, _, length = struct.unpack_from("!HHIH", message, at)
        at += 10
        if number >= answers:
            kinds.append(found)
        elif found == PTR:
            data.append(name_at(message, at))
        else:
            data.append(str(ipaddress.ip_address(message[at : at + length])))
        at += length
    return flags & 0xF, data, kinds


def reverse(address):
    return ipaddress.ip_address(address).reverse_pointer


def few():
    server = resolver()
    hosts = {name: both for name, *both in map(str.split, open(os.environ["LONGHAUL_HOSTFILE"]))}
    v4, v6 = hosts["b.west"]
    for name in ["b.west", "B.West." + DOMAIN]:
        check(ask(server, name, A) == (0, [v4], []), name)
        check(ask(server, name, AAAA, 1232) == (0, [v6], []), name)
        for kind in [MX, HTTPS, 65280]:
            check(ask(server, name, kind) == (0, [], [SOA]), (name, kind))
    for address in [v4, v6]:
        answer = ask(server, reverse(address), PTR)
        check(answer == (0, ["b.west." + DOMAIN], []), answer)
    check(len(ask(server, "r", A)[1]) == 1, "a router")
    for unknown in ["c", "example.com", "a.example.com", reverse("10.9.9.9")]:
        check(ask(server, unknown, A) == (3, [], [SOA]), unknown)
    libraries(v4, v6)


def libraries(v4, v6):
    """What the C library makes of it, with the hosts file before the server."""
    for name in ["b.west", "b.west." + DOMAIN]:
        found = {end[4][0] for end in socket.getaddrinfo(name, 80)}
        check(found == {v4, v6}, f"{name}: {found}")
    check(socket.gethostbyaddr(v6)[0] == "b.west", socket.gethostbyaddr(v6))
    check(socket.gethostname() == "a", socket.gethostname())
    try:
        socket.getaddrinfo("nobody.example", 80)
        check(False, "a name that nobody has")
    except socket.gaierror as error:
        # Not EAI_AGAIN, which is what a missing server leads to.
        check(error.errno == socket.EAI_NONAME, error)


def everybody():
    server = resolver()
    for line in open(os.environ["LONGHAUL_HOSTFILE"]):
        name, v4, v6 = line.split()
        check(ask(server, name, A) == (0, [v4], []), name)
        check(ask(server, name + "." + DOMAIN, AAAA) == (0, [v6], []), name)
        for address in [v4, v6]:
            check(ask(server, reverse(address), PTR)[1] == [name + "." + DOMAIN], address)


def port():
    """A name server of an experiment's own: all addresses, or the host's."""
    server = resolver()
    for kind, options in [(socket.SOCK_DGRAM, True), (socket.SOCK_STREAM, False)]:
        with socket.socket(socket.AF_INET6, kind) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, options)
            own.bind(("::", 53))
            if kind == socket.SOCK_STREAM:
                own.listen()
            check(ask(server, "a", A)[0] == 0, "the run's server beside another one")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind((socket.gethostbyname("a"), 53))


{"few": few, "all": everybody, "port": port}[sys.argv[1]]()
print("done")
