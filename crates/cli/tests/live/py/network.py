"""Knocks at ADDRESS, port 9, where nobody is: TCP and UDP must hear of it at once.

Prints the names of the two errors.
"""

import errno
import socket
import sys
import time

address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
RECVERR = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25),
}
begun = time.monotonic()


def fails(kind, action):
    with socket.socket(family, kind) as knock:
        # Without it a UDP socket keeps quiet about unreachable hosts.
        knock.setsockopt(*RECVERR[family], 1)
        knock.settimeout(5)
        try:
            knock.connect((address, 9))
            action(knock)
        except TimeoutError:
            sys.exit(f"{kind!r} to {address} heard nothing")
        except OSError as error:
            return errno.errorcode[error.errno]
        sys.exit(f"{kind!r} to {address} went through")


def ask(knock):
    knock.send(b"anybody?")
    knock.recv(100)


print(fails(socket.SOCK_STREAM, lambda knock: None), fails(socket.SOCK_DGRAM, ask))
if time.monotonic() - begun > 3:
    sys.exit("that took long")
