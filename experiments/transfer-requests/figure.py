"""Draws RUN/figures/transfer-requests.svg, its data and the README's tables: `figure.py RUN`.

Theory: f1 is the longest transfer; f2 the part of the access link's capacity that is used from the
first start to the last finish; Jain's index (sum x)^2 / (n sum x^2) is that of the rates. What is
planned comes from schedule.py, what was carried from the run.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chart
import findings
import run_data
import schedule


# Of two transfers that share the link; the paper has about 0.99.
FAIR = 0.9


def carried(flow, request):
    """What the network made of a transfer, in the words of an answer."""
    if not flow:
        return schedule.answer(request, None, None)
    return schedule.answer(request, flow["start_s"], flow["finish_s"])


def goals(asked, answers):
    """How many are satisfied, f1 in s, f2 and Jain's index, of what was finished."""
    done = [(request, said) for request, said in zip(asked, answers) if said["finish_s"]]
    satisfied = sum(said["satisfied"] for said in answers)
    if not done:
        return [satisfied, None, None, None]
    lasted = [said["finish_s"] - said["start_s"] for _, said in done]
    span = max(said["finish_s"] for _, said in done) - min(said["start_s"] for _, said in done)
    volume = sum(request["volume_bytes"] * 8 for request, _ in done)
    rates = [said["rate_bps"] for _, said in done]
    return [satisfied, max(lasted), volume / span / schedule.CAPACITY, run_data.jain(rates)]


def check(name, service, request, flow, planned):
    """Claims that a transfer is the planned one; gives its goodput over the highest rate it may have, once finished."""
    what = f"{name}, {service.upper()}, request {request['request']}"
    run_data.claim((flow is None) == (planned["start_s"] is None), f"{what}: planned {planned}, run {flow}")
    if not (flow and flow["finish_s"]):
        return []
    run_data.claim(flow["bytes"] == request["volume_bytes"], f"{what} carried {flow['bytes']} bytes")
    most = planned["rate_bps"] if service == "ts2" else request["max_rate_bps"]
    return [(flow["goodput_bps"] / most, what)]


def hold(run, shares, pair):
    """That no transfer was faster than it may be, and Jain's index of the pair under TS1, None before its end."""
    held = findings.Findings(run, full=pair is not None)
    held.expect("pair, TS1: Jain's index", "about 0.99 in all experiments", pair, FAIR)
    if shares:
        share, what = max(shares)
        held.expect(f"highest goodput over the rate that a transfer may have: {what}", "", share, high=1 + 1e-6, always=True)
    return held


def main():
    run = pathlib.Path(sys.argv[1])
    whole = run_data.summary(run)
    for service in schedule.SERVICES:
        text = (HERE / f"{service}.csv").read_text()
        run_data.claim(text == schedule.flows(service), f"{service}.csv is not what schedule.py writes")
    by_host = {flow["from"]: flow for flow in run_data.flows(whole).values()}
    pipes = {pipe["name"]: pipe for pipe in whole["pipes"]}
    links = {f"{name}-{service}": f"{name}-{service}-in>{name}-{service}-out" for name in schedule.SETS for service in schedule.SERVICES}
    rates = run_data.rates(run, links.values())
    rows, sums, grid = [], [], []
    shares, pair = [], None
    for name in schedule.SETS:
        asked, row = schedule.requests(name), []
        load = chart.Panel(f"{name}: the access link", "time (s)", "frames (Mbit/s)", x_range=(0, 48))
        for colour, service in enumerate(schedule.SERVICES):
            planned = schedule.PLANS[service](asked)
            flows = [by_host.get(f"{name}-{service}-{request['from']}") for request in asked]
            begun = [(*three,) for three in zip(asked, flows, planned) if three[1] or three[2]["start_s"] is None]
            if whole["simulated_s"] > max(said["start_s"] or 0 for said in planned):
                run_data.claim(len(begun) == len(asked), f"{name} {service}: transfers were not run")
            for three in begun:
                shares += check(name, service, *three)
            got = [carried(flow, request) for request, flow in zip(asked, flows)]
            panel = chart.Panel(f"{name}: {service.upper()}", "time (s)", "request", x_range=(0, 48), counts=True)
            panel.line("planned", [], colour)
            panel.dots("carried, in time", [], colour)
            panel.dots("too late", [], colour, hollow=True)
            panel.squares("deadline", [], 3)
            for request, before, after, flow in zip(asked, planned, got, flows):
                number = request["request"]
                if before["start_s"] is not None:
                    panel.line("", [(before["start_s"], number), (before["finish_s"], number)], colour)
                if after["finish_s"]:
                    panel.dots("", [(after["start_s"], number), (after["finish_s"], number)], colour, hollow=not after["satisfied"])
                panel.squares("", [(request["deadline_s"], number)], 3)
                says = lambda said: [said["start_s"], said["rate_bps"] and said["rate_bps"] / 1e6, said["finish_s"], "yes" if said["satisfied"] else "no"]
                rows.append([name, service.upper(), number, *map(float, (request["release_s"], request["deadline_s"])),
                             *says(before), *says(after)[1:], flow and flow["retransmissions"]])  # fmt: skip
            panel.y_range = (0, len(asked) + 1)
            row.append(panel)
            load.line(service.upper(), rates[links[f"{name}-{service}"]], colour)
            lost = pipes[links[f"{name}-{service}"]]["drops_queue"]
            sums.append([name, service.upper(), "planned", *goals(asked, planned), None])
            reached = goals(asked, got)
            if (name, service) == ("pair", "ts1") and all(said["finish_s"] for said in got):
                pair = reached[3]
            sums.append([name, service.upper(), "carried", *reached, lost])
        grid.append([*row, load])
    figure = run / "figures" / "transfer-requests"
    names = ["set", "service", "request", "release_s", "deadline_s", "planned_start_s", "planned_mbps", "planned_finish_s",
             "planned_satisfied", "mbps", "finish_s", "satisfied", "sent_again"]  # fmt: skip
    chart.save(figure.with_suffix(".svg"), "Requests for transfers, by two transport services", grid)
    chart.save_csv(figure.with_suffix(".csv"), names, rows)
    chart.save_table(figure.with_suffix(".md"), [name.replace("_", " ") for name in names], rows)
    goals_named = ["set", "service", "", "satisfied", "f1 (s)", "f2", "Jain's index", "lost in the queue"]
    chart.save_table(figure.with_name("goals.md"), goals_named, sums)
    hold(run, shares, pair).settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
