"""Draws RUN/figures/nemc-timeline.svg and writes its data beside it: `figure.py RUN`.

The run has followed each packet through the pipe (`measure: packets`). It claims that every datagram that was
sent is there, that each was served when it had come and the one before it was gone, and that it came out after
its service of size / rate and one of the four delays, to the nanosecond. How much later the machine put packets
onto the cable is known by the millisecond, from the series `core`.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import findings
import run_data

# 512 bytes of payload, UDP and IPv4 headers, Ethernet header and checksum, at 1 Gbit/s
SERVICE_NS = (512 + 8 + 20 + 18) * 8
DELAYS_US = (50, 250, 500, 1000)
# Patterns begin 50 ms apart, and none takes as long as that.
APART_NS = 20_000_000


def followed(run):
    """The packets of the run in order of arrival, each with its delay."""
    lost = run_data.summary(run)["verdict"]["physical_drops"]
    packets = [row for row in run_data.series(run, "packets") if row["protocol"] == "udp"]
    packets.sort(key=lambda packet: (packet["arrival_ns"], packet["service_ns"]))
    sent = int((run / "logs" / "send.out").read_text().split()[1])
    missing = sent - len(packets)
    run_data.claim(0 <= missing <= lost, f"{missing} datagrams of {sent} are missing")
    free_ns = 0
    for number, packet in enumerate(packets):
        due_ns = max(packet["arrival_ns"], free_ns)
        run_data.claim(packet["service_ns"] == due_ns, f"packet {number} was served at another time than {due_ns} ns")
        free_ns = due_ns + SERVICE_NS
        packet["delay_us"] = (packet["departure_ns"] - free_ns) / 1000
        run_data.claim(packet["fate"] == "out", f"packet {number} did not come out: {packet['fate']}")
        run_data.claim(packet["delay_us"] in DELAYS_US, f"packet {number} was delayed by {packet['delay_us']} µs")
    return packets


def rounds(packets, core):
    """(delay, packets of a pattern) → its rounds; without those during which the delay changed."""
    groups, found = [], {}
    for packet in packets:
        if not groups or packet["arrival_ns"] - groups[-1][-1]["arrival_ns"] > APART_NS:
            groups.append([])
        groups[-1].append(packet)
    for group in groups:
        delays = {packet["delay_us"] for packet in group}
        if len(delays) == 1:
            found.setdefault((int(delays.pop()), len(group)), []).append((lateness(group, core), group))
    return found


def lateness(group, core):
    """Packets that left in the bins in which these did, their lateness in all, and the largest, in nanoseconds."""
    begin, end = group[0]["departure_ns"], group[-1]["departure_ns"]
    bins = [row for row in core if row["start_ns"] <= end and row["start_ns"] + row["width_ns"] > begin and row["left"]]
    left = sum(row["left"] for row in bins)
    total = sum(row["left"] * float(row["lateness_mean_ns"]) for row in bins)
    return left, total, max((row["lateness_max_ns"] for row in bins), default=0)


def panel(delay_us, packets):
    """Arrivals, services and departures of one round over time."""
    count, start = len(packets), packets[0]["arrival_ns"]
    gap_us = round((packets[-1]["arrival_ns"] - start) / 1000 / max(count - 1, 1))
    times = [[(packet[name] - start) / 1000 for name in ("arrival_ns", "service_ns", "departure_ns")] for packet in packets]
    end = max(departure for _, _, departure in times) * 1.03
    title = f"{delay_us} µs: {count} packets " + (f"at gaps of {gap_us} µs in the mean" if gap_us else "at once")
    drawn = chart.Panel(title, "time since the first arrival (µs)", "packet", (0, end), (0, count + 1), counts=True)
    drawn.bars("", [(arrival, departure, n) for n, (arrival, _, departure) in enumerate(times, 1)])
    drawn.dots("arrival", [(arrival, n) for n, (arrival, _, _) in enumerate(times, 1)], 0, hollow=True)
    tall = count / 40
    drawn.ranges("service begins", [(service, n - tall, n + tall) for n, (_, service, _) in enumerate(times, 1)], 2)
    drawn.squares("departure", [(departure, n) for n, (_, _, departure) in enumerate(times, 1)], 1)
    return drawn


def hold(run, packets, table):
    """What the paper found with Figure 5: how long a packet stays in the emulator, at 250 µs."""
    broken = run_data.summary(run)["verdict"]["state"] == "broken"
    held = findings.Findings(run, full=not broken and not findings.changed(run))
    stays = sorted((p["departure_ns"] - p["arrival_ns"]) / 1000 for p in packets if p["delay_us"] == 250 and p["service_ns"] == p["arrival_ns"])
    median = run_data.quantile(stays, 0.5) if stays else None
    held.expect("arrival to departure at 250 µs, median of those that need not wait, µs", "250 (NemC); above 350 (NIST Net)",
                median, 250, 250 + SERVICE_NS / 1000, always=True)  # fmt: skip
    late = {row[0]: float(row[4]) for row in table}.get(250)
    held.expect("how late they are on the cable, mean, µs", "very accurate (NemC); above 100 (NIST Net)", late, 0, 50)
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    packets = followed(run)
    found = rounds(packets, run_data.series(run, "core"))
    figure = run / "figures" / "nemc-timeline"
    panels, table = [], []
    for delay_us in sorted({delay for delay, _ in found}):
        patterns = {count: found[delay_us, count] for count in (20, 10) if (delay_us, count) in found}
        # The round in the middle, by its latest packet.
        typical = {count: sorted(of, key=lambda turn: turn[0][2])[len(of) // 2] for count, of in patterns.items()}
        panels.append([panel(delay_us, group) for _, group in typical.values()])
        turns = [turn for of in patterns.values() for turn in of]
        left, total, most = (kind([late[n] for late, _ in turns]) for n, kind in enumerate((sum, sum, max)))
        waits = [packet["service_ns"] - packet["arrival_ns"] for _, group in turns for packet in group]
        late = [total / max(left, 1) / 1000, most / 1000]
        table.append([delay_us, len(turns), len(waits), f"{max(waits) / 1000:.1f}", *(f"{us:.1f}" for us in late)])
    names = ["arrival_us", "service_us", "departure_us"]
    rows = [
        [packet["delay_us"], *((packet[name.replace("_us", "_ns")]) / 1000 for name in names)] for packet in packets
    ]
    chart.save_csv(figure.with_suffix(".csv"), ["delay_us", *names], rows)
    heads = ["delay (µs)", "patterns", "packets", "longest wait (µs)", "mean lateness (µs)", "largest (µs)"]
    chart.save_table(figure.with_suffix(".md"), heads, table)
    chart.save(figure.with_suffix(".svg"), "Arrival, service and departure of 512-byte datagrams, 1 Gbit/s", panels)
    hold(run, packets, table).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
