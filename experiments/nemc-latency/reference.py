"""The same measurement through Linux's netem, for comparison: `reference.py RUN`.

    host a ── veth ── user-mode Linux: netem ── veth ── host b

netem runs in a kernel of its own, user-mode Linux, so that it is there whatever this machine's
kernel was built with, and so that nobody needs root. The same programs measure, with the delays
and patterns of the experiment; the files go to RUN/netem. Where user-mode Linux is missing this
says so and ends with 0.

Everything lives in namespaces of its own (user, network, mount, process) and ends with them.
User-mode Linux boots from this machine's own file system, read-only.
"""

import json
import os
import pathlib
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import run_data

MODULES = pathlib.Path("/usr/lib/uml/modules")  # where Debian's package has them
INNER = "--inside"
ANSWER_S = 1
PATIENCE_S = 600  # for the whole measurement

# What the kernel in the middle runs as its first process: it forwards between two cards and
# delays what leaves through the second one, as each line on its console says. Busybox, because
# mount itself is setuid and so loses its rights where the files seem to be another user's.
INIT = """#!/bin/sh
set -e
exec 2>&1
{busybox} mount -t proc proc /proc
{busybox} insmod {module}
for card in vec0 vec1; do ip link set $card up; done
ip address add 10.99.1.1/24 dev vec0
ip address add 10.99.2.1/24 dev vec1
echo 1 > /proc/sys/net/ipv4/ip_forward
tc qdisc add dev vec1 root netem limit 10000 delay 0us
echo netem: ready
while read -r delay; do
	[ -n "$delay" ] || continue
	tc qdisc change dev vec1 root netem limit 10000 delay "$delay"
	echo "netem: $delay"
done
"""


def needs():
    """What is here: (commands by name, netem's module), or a text that says what is missing."""
    names = ("linux.uml", "busybox", "ip", "tc", "ethtool", "unshare", "nsenter")
    commands = {name: shutil.which(name) for name in names}
    missing = [name for name, path in commands.items() if not path]
    if missing:
        return f"{', '.join(missing)} missing (packages user-mode-linux, busybox, iproute2, ethtool)"
    modules = sorted(MODULES.glob("*/kernel/net/sched/sch_netem.ko"))
    if not modules:
        return f"no sch_netem.ko below {MODULES}"
    return commands, modules[-1]


class Netem:
    """User-mode Linux between the cards c0 and c1 of this network namespace."""

    def __init__(self, folder, commands, module):
        init = folder / "init.sh"
        init.write_text(INIT.format(busybox=commands["busybox"], module=module))
        init.chmod(0o755)
        arguments = [
            "mem=96M", "root=/dev/root", "rootfstype=hostfs", "ro", f"init={init}", "quiet", "loglevel=1",
            "con=null", "con0=fd:0,fd:1", "panic=-1", f"uml_dir={folder}", "umid=netem",
            *(f"vec{n}:transport=raw,ifname=c{n},depth=128,gro=0" for n in (0, 1)),
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [commands["linux.uml"], *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            preexec_fn=lambda: pin(last=True),
        )  # fmt: skip
        self.heard = ""
        self.expect("ready")

    def expect(self, word):
        """Waits for a line of the console with this news."""
        while f"netem: {word}" not in self.heard.splitlines():
            ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_S)
            if not ready:  # it misses an interrupt of its console now and then: one more wakes it
                os.write(self.process.stdin.fileno(), b"\n")
                continue
            news = os.read(self.process.stdout.fileno(), 4096)
            if not news:
                sys.exit(f"user-mode Linux ended: {self.heard[:500]}")
            self.heard += news.decode(errors="replace")
        self.heard = ""

    def delay(self, text):
        os.write(self.process.stdin.fileno(), f"{text}\n".encode())
        self.expect(text)


def pin(last):
    """The emulator gets the last CPU and the programs the others, as in a run of Longhaul."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        os.sched_setaffinity(0, cpus[-1:] if last else cpus[:-1])


def serve(listener, netem):
    """Answers `set` like the control socket of a run."""
    peer, _ = listener.accept()
    with peer:  # closed where netem fails, so that the sender does not wait
        while request := peer.recv(65536):
            values = json.loads(request)["set"]["values"]
            netem.delay(values["delay"].replace(" ", ""))
            peer.send(json.dumps({"set": {"pipes": ["a>b"], "at_s": 0}}).encode())


def wire(ip, ethtool, host, card, address, gateway):
    """Moves one end of a cable into the network namespace of process `host`."""
    run = lambda command: subprocess.run(shlex.split(command), check=True)
    inside = f"nsenter --target {host} --net"
    run(f"{ip} link add {card} type veth peer name eth0 netns {host}")
    run(f"{ip} link set {card} up")
    run(f"{inside} {ip} address add {address} dev eth0")
    run(f"{inside} {ip} link set eth0 up")
    run(f"{inside} {ip} route add default via {gateway}")
    # A raw socket would get datagrams without their checksums.
    subprocess.run(shlex.split(f"{inside} {ethtool} -K eth0 tx off"), check=True, stdout=subprocess.DEVNULL)


def inside(run, folder, commands, module):
    """The measurement, in namespaces of its own; `folder` is for what only it needs."""
    hosts = [subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) for _ in "ab"]
    own = os.readlink("/proc/self/ns/net")
    for host in hosts:
        while os.readlink(f"/proc/{host.pid}/ns/net") == own:
            pass
    for number, host in enumerate(hosts):
        subnet = f"10.99.{number + 1}"
        wire(commands["ip"], commands["ethtool"], host.pid, f"c{number}", f"{subnet}.2/24", f"{subnet}.1")
    netem = Netem(folder, commands, module)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(folder / "control.sock"))
    listener.listen()
    threading.Thread(target=serve, args=(listener, netem), daemon=True).start()

    def start(host, words):
        command = ["nsenter", "--target", str(host.pid), "--net", sys.executable, str(HERE / "packets.py"), *words]
        return subprocess.Popen(
            command, cwd=run / "netem", env={**os.environ, "LONGHAUL_RUN": str(folder)},
            preexec_fn=lambda: pin(last=False), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    receiver = start(hosts[1], ["receive"])
    receiver.stdout.readline()
    words = sender_words(run)
    sender = start(hosts[0], ["send", "10.99.2.2", *words])
    said, _ = sender.communicate()
    print(f"netem: {said.strip()}")
    receiver.wait()
    return sender.returncode or receiver.returncode


def sender_words(run):
    """What the experiment's sender did, as its options."""
    sent = run_data.rows(run / "hosts/a/sent.csv")
    delays, patterns = (dict.fromkeys(str(row[name]) for row in sent) for name in ("delay_us", "pattern"))
    each = [word for pattern in patterns for word in ("--pattern", pattern)]
    rounds = max(row["round"] for row in sent) + 1
    return ["--link", "a-b", "--delays", ",".join(delays), "--rounds", str(rounds), *each]


def main():
    found = needs()
    if isinstance(found, str):
        print(f"{HERE.name}: no comparison with netem: {found}")
        return 0
    if sys.argv[1] == INNER:
        return inside(*map(pathlib.Path, sys.argv[2:]), *found)
    run = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(run / "netem", ignore_errors=True)
    (run / "netem").mkdir()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    own = shlex.split("unshare --user --map-root-user --net --mount --pid --fork --kill-child --mount-proc")
    with tempfile.TemporaryDirectory(prefix="longhaul-netem-") as folder:
        command = [*own, sys.executable, __file__, INNER, str(run), folder]
        return subprocess.run(command, timeout=PATIENCE_S).returncode


sys.exit(main())
