"""Draws RUN/figures/nemc-timeline.svg and writes its data beside it: `figure.py RUN`.

A packet is due when the link has sent it, after those before it, and its delay is over:
end = max(arrival, end of the one before) + size / rate; due = end + delay. It claims that every
packet arrived, in order, and that none departed before it was due.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart
import run_data

# 512 bytes of payload, UDP and IPv4 headers, Ethernet header and checksum, at 1 Gbit/s
SERVICE_NS = (512 + 8 + 20 + 18) * 8


def timelines(run):
    """(delay, pattern, round) → its packets, each with `due_ns`; in the order of the run."""
    lost = run_data.summary(run)["verdict"]["physical_drops"]
    files = [run_data.rows(run / "hosts" / name) for name in ("a/sent.csv", "b/received.csv")]
    groups = {}
    for pair in run_data.pairs(*files, lost):
        groups.setdefault((pair["delay_us"], pair["pattern"], pair["round"]), []).append(pair)
    for packets in groups.values():
        end_ns = 0
        for packet in packets:
            end_ns = max(packet["sent_ns"], end_ns) + SERVICE_NS
            packet["due_ns"] = end_ns + packet["delay_us"] * 1000
            early_ns = packet["due_ns"] - packet["received_ns"]
            run_data.claim(early_ns <= 0, f"packet {packet['number']} departed {early_ns} ns before it was due")
    return groups


def typical(rounds):
    """The round whose latest packet is the median of all rounds' latest packets."""
    worst = lambda packets: max(packet["received_ns"] - packet["due_ns"] for packet in packets)
    return sorted(rounds, key=worst)[len(rounds) // 2]


def panel(delay_us, pattern, packets):
    """Arrivals and departures of one round over time."""
    count, gap_us = map(int, pattern.split("x"))
    kind = f"{count} packets every {gap_us} µs" if gap_us else f"{count} packets at once"
    start = packets[0]["sent_ns"]
    times = [[(packet[name] - start) / 1000 for name in ("sent_ns", "due_ns", "received_ns")] for packet in packets]
    end = max(received for _, _, received in times) * 1.03
    drawn = chart.Panel(f"{delay_us} µs: {kind}", "time (µs)", "packet", (0, end), (0, count * 1.4))
    drawn.bars("", [(sent, received, n) for n, (sent, _, received) in enumerate(times, 1)])
    drawn.dots("arrival", [(sent, n) for n, (sent, _, _) in enumerate(times, 1)], 0, hollow=True)
    drawn.squares("departure", [(received, n) for n, (_, _, received) in enumerate(times, 1)], 1)
    tall = count / 40
    drawn.ranges("due", [(due, n - tall, n + tall) for n, (_, due, _) in enumerate(times, 1)], 2)
    return drawn


def main():
    run = pathlib.Path(sys.argv[1])
    groups = timelines(run)
    kinds = {}
    for (delay_us, pattern, _), packets in groups.items():
        kinds.setdefault(delay_us, {}).setdefault(pattern, []).append(packets)
    panels = [[panel(delay, pattern, typical(rounds)) for pattern, rounds in patterns.items()]
              for delay, patterns in sorted(kinds.items())]  # fmt: skip
    names = ["delay_us", "pattern", "round", "number", "arrival_us", "due_us", "departure_us"]
    rows = []
    for (delay_us, pattern, turn), packets in groups.items():
        start = packets[0]["sent_ns"]
        for n, packet in enumerate(packets, 1):
            times = [(packet[name] - start) / 1000 for name in ("sent_ns", "due_ns", "received_ns")]
            rows.append([delay_us, pattern, turn, n, *times])
    figure = run / "figures" / "nemc-timeline"
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    chart.save(figure.with_suffix(".svg"), "Arrival and departure of 512-byte datagrams, 1 Gbit/s", panels)
    print(figure.with_suffix(".svg"))


main()
