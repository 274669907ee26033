"""Longhaul beside instruments that are not its own: `instruments.py RUN`, after `reference.py RUN`.

    host a ── veth ── host b        a plain cable, without any emulator

RUN is a run of this experiment. The same programs send the same datagrams over a plain cable
between two network namespaces, and the same kernel stamps (SO_TIMESTAMPING at the sender's interface,
SO_TIMESTAMPNS at the receiver's) give their latencies. RUN/figures/instruments.md has them beside
Longhaul's and, where reference.py has measured it, netem's in user-mode Linux: latency less the
delay that was set. Where a tool is missing this says so and ends with 0.
"""

import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

INNER = "--inside"
DELAYS_US = (0, 10, 100, 800, 1600)
PATIENCE_S = 300


def missing():
    """Tools that are not there."""
    return [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]


def pin():
    """Programs have all CPUs but the last, as in a run of Longhaul."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        os.sched_setaffinity(0, cpus[:-1])


def serve(listener):
    """Answers `set` like the control socket of a run; the only delay asked for is none."""
    peer, _ = listener.accept()
    with peer:
        while request := peer.recv(65536):
            delay = json.loads(request)["set"]["values"]["delay"]
            done = {"set": {"pipes": ["a>b"], "at_s": 0}} if delay == "0 us" else {"error": f"a cable has no {delay}"}
            peer.send(json.dumps(done).encode())


def inside(run, folder):
    """The measurement, in namespaces of its own."""
    hosts = [subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) for _ in "ab"]
    own = os.readlink("/proc/self/ns/net")
    for host in hosts:
        while os.readlink(f"/proc/{host.pid}/ns/net") == own:
            pass
    call = lambda text: subprocess.run(shlex.split(text), check=True)
    call(f"ip link add name a0 netns {hosts[0].pid} type veth peer name b0 netns {hosts[1].pid}")
    for number, (host, interface) in enumerate(zip(hosts, ("a0", "b0"))):
        within = f"nsenter --target {host.pid} --net"
        call(f"{within} ip address add 10.99.0.{number + 1}/24 dev {interface}")
        call(f"{within} ip link set {interface} up")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(folder / "control.sock"))
    listener.listen()
    threading.Thread(target=serve, args=(listener,), daemon=True).start()

    def start(host, words):
        command = ["nsenter", "--target", str(host.pid), "--net", sys.executable, str(HERE / "packets.py"), *words]
        return subprocess.Popen(
            command, cwd=run / "cable", env={**os.environ, "LONGHAUL_RUN": str(folder)},
            preexec_fn=pin, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    receiver = start(hosts[1], ["receive"])
    receiver.stdout.readline()
    sent = run_data.rows(run / "hosts/a/sent.csv")
    # As many rounds as the run has datagrams of one delay, for the tails to compare.
    patterns = dict.fromkeys(str(row["pattern"]) for row in sent)
    rounds = max(row["round"] for row in sent) + 1
    each = [word for pattern in patterns for word in ("--pattern", pattern)]
    sender = start(hosts[0], ["send", "10.99.0.2", "--link", "a-b", "--delays", "0", "--rounds", str(rounds), *each])
    said, _ = sender.communicate()
    print(f"plain cable: {said.strip()}")
    receiver.wait()
    return sender.returncode or receiver.returncode


def rows_of(name, sent, received):
    """By delay: packets, and quantiles of latency less delay in microseconds."""
    by_delay = {}
    for pair in run_data.pairs(*map(run_data.rows, (sent, received))):
        excess = (pair["received_ns"] - pair["sent_ns"]) / 1e3 - pair["delay_us"]
        by_delay.setdefault(pair["delay_us"], []).append(excess)
    for delay in DELAYS_US:
        if delay in by_delay:
            values = sorted(by_delay[delay])
            figures = [values[0], *(run_data.quantile(values, part) for part in (0.5, 0.9)), values[-1]]
            yield [name, delay, len(values), *(f"{figure:.1f}" for figure in figures)]


def main():
    if lacks := missing():
        print(f"{HERE.name}: no comparison with a cable: {', '.join(lacks)} missing (packages iproute2, util-linux)")
        return 0
    if sys.argv[1] == INNER:
        return inside(*map(pathlib.Path, sys.argv[2:]))
    run = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(run / "cable", ignore_errors=True)
    (run / "cable").mkdir()
    own = shlex.split("unshare --user --map-root-user --net --mount --pid --fork --kill-child --mount-proc")
    with tempfile.TemporaryDirectory(prefix="longhaul-cable-") as folder:
        done = subprocess.run([*own, sys.executable, "-B", __file__, INNER, str(run), folder], timeout=PATIENCE_S)
    if done.returncode:
        return done.returncode
    instruments = {
        "plain cable": run / "cable",
        "Longhaul": None,
        "netem in user-mode Linux": run / "netem",
    }
    table = []
    for name, folder in instruments.items():
        files = [run / "hosts" / file for file in ("a/sent.csv", "b/received.csv")]
        if folder:
            files = [folder / file for file in ("sent.csv", "received.csv")]
        if all(file.exists() for file in files):
            table += rows_of(name, *files)
    names = ["instrument", "set delay (µs)", "packets", "least (µs)", "median", "90 %", "most"]
    (run / "figures").mkdir(exist_ok=True)
    chart.save_table(run / "figures" / "instruments.md", names, table)
    print((run / "figures" / "instruments.md").read_text(), end="")
    return 0


sys.exit(main())
