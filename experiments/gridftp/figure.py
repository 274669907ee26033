"""Draws RUN/figures/gridftp.svg, its data and the README's tables: `figure.py RUN`.

Theory: without losses n flows have n times their buffer in each round trip, or what the slowest
link carries; as a writer is woken when a third of the buffer is free, a little less than that. Lost
segments at the rate p of bursts hold Reno's window at about 1.22 / sqrt(p) segments (Mathis). A file
in equal parts, one for each flow, has arrived when the slowest flow has.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

FLOWS = [1, 2, 4, 8, 16, 32]
BUFFERS = ["64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "2MiB", "4MiB"]
LOSSES = ["none", "0.1-all", "0.1-one-a", "0.1-one-b", "0.1-one-c", "0.5-all", "0.5-one-a", "0.5-one-b", "0.5-one-c"]
CROSS = [200, 400, 600]
ROUND_TRIP, SEGMENT = 0.024, 1448
# MB/s of payload in frames of 1518 bytes at 1 Gbit/s.
MOST = 1e9 / 8 / 1518 * SEGMENT / 1e6
FILE = 1e9
# Figure 11's words: 0.1 % of burst loss cost nearly 75 % in the best case, and mappings of flows to
# links differed by up to a factor of 3.
LEAST_LOST, MOST_LOST, MAPPINGS = 0.70, 0.85, 3
KIB = {name: int(name[:-3]) * (1024 if name.endswith("MiB") else 1) for name in BUFFERS}


def sessions(flows):
    """By entry its flows."""
    found = {}
    for name, flow in flows.items():
        found.setdefault(name.split("#")[0], []).append(flow)
    return found


def speed(flows, end):
    """MB/s of a session: of each flow its bytes over its time."""
    return sum(flow["goodput_bps"] for flow in flows) / 8e6


def transfer(flows):
    """MB/s of a file in equal parts: all of it over the time of the slowest flow; None if not whole."""
    whole = all(flow["finish_s"] is not None for flow in flows) and sum(flow["bytes"] for flow in flows) == FILE
    return FILE / max(flow["finish_s"] for flow in flows) / 1e6 if whole else None


def hit(flows):
    """How many flows crossed a link that lost packets: those that had to send some again."""
    return sum(flow["retransmissions"] > 0 for flow in flows)


def hold_losses(held, found, carried):
    """What the paper's Figure 11 says, and what it does not: a mapping past the faulty link loses nothing."""
    none = carried["none"]
    best = max(carried[name] for name in LOSSES if name.startswith("0.1") and hit(found[f"loss-{name}"]))
    held.expect("0.1 % lost, best case: the file's rate below that without losses, %", "Figure 11: nearly 75",
                100 * (1 - best / none), 100 * LEAST_LOST, 100 * MOST_LOST)  # fmt: skip
    one = [carried[name] for name in LOSSES if name.startswith("0.1-one")]
    held.expect("0.1 % lost on one link: the file's highest rate over its lowest, by mapping", "Figure 11: up to 3",
                max(one) / min(one), MAPPINGS)  # fmt: skip
    for name in LOSSES[1:]:
        flows, rate = found[f"loss-{name}"], carried[name]
        if name.endswith("all"):
            held.expect(f"{name}: flows hit", "", hit(flows), len(flows), len(flows))
        if hit(flows) == 0:
            held.expect(f"{name}, no flow hit: the file's rate over that without losses", "", rate / none, 0.99)


def hold(run, got, most, found, carried):
    """The bound of every session without losses, and where files were carried whole, what losses cost."""
    whole = None not in carried.values()
    held = findings.Findings(run, full=whole)
    nearest = max(most, key=lambda name: got[name] / most[name])
    held.expect(f"highest goodput over its bound (buffers in a round trip, or the link): {nearest}", "",
                got[nearest] / most[nearest], high=1, always=True)  # fmt: skip
    if whole:
        hold_losses(held, found, carried)
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    found = sessions(run_data.flows(whole))
    got = {name: speed(flows, whole["simulated_s"]) for name, flows in found.items()}
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    held = {}
    for count in (1, 4):
        for buffer in BUFFERS:
            held[f"buffer-{buffer}-{count}"] = count * KIB[buffer] * 1024 / ROUND_TRIP / 1e6
    held.update({f"alone-{count}": count * 256 * 1024 / ROUND_TRIP / 1e6 for count in FLOWS})
    alone, beside = [[(n, got[f"{who}-{n}"]) for n in FLOWS] for who in ("alone", "beside")]
    goodput = "goodput (MB/s)"
    streams = chart.Panel("Parallel flows (Figure 7)", "flows, each with a send buffer of 256 KiB", goodput, x_log=True, x_ticks=[(n, f"{n}") for n in FLOWS])
    streams.line("buffers in a round trip, or the link", [(n, min(held[f"alone-{n}"], MOST)) for n in FLOWS], 3, dashed=True)
    streams.dots("alone", alone, 0)
    streams.dots("beside 42 other flows", beside, 1)
    streams.line("a share of n / (n + 42)", [(n, MOST * n / (n + 42)) for n in FLOWS], 1, dashed=True)
    buffers = chart.Panel("Send buffers (Figure 10)", "send buffer of each flow", goodput, x_log=True, x_ticks=[(KIB[b], chart.size(KIB[b] * 1024)) for b in BUFFERS])
    for colour, count in enumerate((1, 4)):
        name = lambda buffer: f"buffer-{buffer}-{count}"
        buffers.dots(f"{count} flow{'s' if count > 1 else ''}", [(KIB[b], got[name(b)]) for b in BUFFERS], colour)
        buffers.line("", [(KIB[b], min(held[name(b)], MOST)) for b in BUFFERS], colour, dashed=True)
    places = ["none", *(f"{rate} %\n{where}" for rate in ("0.1", "0.5") for where in ("all links", "one, a", "one, b", "one, c"))]
    losses = chart.Panel("Loss in bursts of five (Figure 11)", "packets lost, and on which of the four links", goodput, categories=places)
    carried = {name: transfer(found[f"loss-{name}"]) for name in LOSSES}
    missing = [name for name, rate in carried.items() if rate is None]
    run_data.claim(findings.changed(run) or not missing, f"files that did not arrive whole: {missing}")
    losses.columns("1 GB in four parts", [(at, carried[name]) for at, name in enumerate(LOSSES) if carried[name]], 0)
    losses.dots("the four flows' own rates", [(at, got[f"loss-{name}"]) for at, name in enumerate(LOSSES)], 1, hollow=True)
    loads = [(0, "none"), *((mean, chart.rate(mean * 1e6)) for mean in CROSS)]
    cross = chart.Panel("Background traffic", "background in the mean, on and off", goodput, x_range=(-20, 650), x_ticks=loads)
    offered = {mean: found[f"cross-{mean}"][0]["datagrams"] for mean in CROSS}
    cross.dots("four flows of 1 MiB", [(0, got["loss-none"]), *((mean, got[f"background-{mean}"]) for mean in CROSS)], 0)
    cross.dots("the background's own", [(mean, speed(found[f"cross-{mean}"], 0)) for mean in CROSS], 1)
    windows = run_data.windows(run)
    end = whole["simulated_s"]
    window = chart.Panel("A flow's window (Figure 9)", "time (s)", "window (segments)", x_range=(0, 16))
    for colour, (name, flow) in enumerate([("beside 42 other flows", "beside-4#1"), ("0.1 % lost", "loss-0.1-all#1")]):
        until = run_data.flows(whole)[flow]["finish_s"] or end
        points = run_data.steps([(t, cwnd) for t, cwnd, _ in windows[flow]], until)
        window.line(name, run_data.thin(points), colour)
    bandwidth = chart.Panel("Bandwidth of a session, second by second (Figure 8)", "time (s)", "frames (Mbit/s)", x_range=(0, end))
    rates = run_data.rates(run, ["f8>la8"])
    bandwidth.line("four flows beside 42", rates["f8>la8"], 0)
    # What each of the four links carried of a session, as a hash of flows spreads it.
    spread = lambda path: [pipes[f"la{path}>ch{path}" + ("" if link == 1 else f"#{link}")]["packets"] for link in (1, 2, 3, 4)]
    rows = [[name, len(flows), got[name], sum(flow["retransmissions"] for flow in flows)] for name, flows in found.items()]
    table = [[n, min(held[f"alone-{n}"], MOST), got[f"alone-{n}"], MOST * n / (n + 42), got[f"beside-{n}"]] for n in FLOWS]
    sizes = [[b, *(value for count in (1, 4) for value in (min(held[f"buffer-{b}-{count}"], MOST), got[f"buffer-{b}-{count}"]))] for b in BUFFERS]
    hurt = []
    for at, name in enumerate(LOSSES):
        shares = spread(26 + at)
        flows, rate = found[f"loss-{name}"], carried[name]
        less = rate and carried["none"] and f"{100 * (1 - rate / carried['none']):.0f}"
        hurt.append([name, hit(flows), rate, less, got[f"loss-{name}"], " / ".join(f"{100 * share / (sum(shares) or 1):.0f}" for share in shares)])
    load = [[mean, offered[mean]["sent"], offered[mean]["lost"], got[f"background-{mean}"]] for mean in CROSS]
    figure = run / "figures" / "gridftp"
    chart.save(figure.with_suffix(".svg"), "GridFTP over the TeraGrid", [[streams, buffers, losses], [cross, window, bandwidth]])
    chart.save_csv(figure.with_suffix(".csv"), ["session", "flows", "mb_per_s", "sent_again"], rows)
    chart.save_table(figure.with_name("flows.md"), ["flows", "buffers or link (MB/s)", "alone", "n / (n + 42)", "beside 42"], table)
    chart.save_table(figure.with_name("buffers.md"), ["send buffer", "1 flow at most (MB/s)", "1 flow", "4 at most", "4 flows"], sizes)
    chart.save_table(figure.with_name("losses.md"), ["loss and where", "flows hit", "the file (MB/s)", "less than without (%)", "sum of the flows' rates", "packets by link (%)"], hurt)
    chart.save_table(figure.with_name("background.md"), ["background (Mbit/s)", "datagrams sent", "lost", "session (MB/s)"], load)
    most = {name: min(rate, MOST) for name, rate in held.items()}
    hold(run, got, most, found, carried).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
