"""Draws RUN/figures/partitioning.svg, its data and the README's tables: `figure.py RUN`.

Runs the trees beside RUN, splits all three networks by each method over 2 to 8 cores, and counts what
that costs (loads.py). Where the run is one of the smoke size, fewer cores and seeds are looked at.
"""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import chart
import findings
import loads
import model
import run_data

# Name, method, weights.
METHODS = [
    ("random", "random", "expected"),
    ("k-cluster", "k-cluster", "expected"),
    ("metis", "metis", "conservative"),
    ("metis (flows known)", "metis", "expected"),
    ("best", "best", "expected"),
]
NAMES = {"metis": "METIS"}
DRAWN = ["random", "k-cluster", "metis", "best"]


def networks(run):
    """The three networks with their counts, simplest first."""
    whole = run_data.summary(run)
    found = {}
    for name in ("h2", "h5"):
        out, until = run / name, ("--set", f"duration={whole['simulated_s']} s")
        loads.longhaul("run", HERE / f"{name}.yaml", "--out", out, "--force", "--quiet", *until)
        found[name] = loads.Counted(HERE / f"{name}.yaml", out, *until)
    # What the file was changed by stands at its end.
    changed = "# run with --set "
    lines = (run / "experiment.yaml").read_text().splitlines()
    changes = [("--set", line.removeprefix(changed)) for line in lines if line.startswith(changed)]
    found["internet"] = loads.Counted(run / "experiment.yaml", run, *sum(changes, ()))
    return found


def measure(network, cores, seeds):
    """By method: medians over seeds of what a partition costs, counted and expected."""
    found = {}
    for name, method, weights in METHODS:
        rows = []
        for seed in seeds:
            owner, expected = network.split(cores, method, weights, seed)
            efficiency, _, load = network.cost(cores, owner)
            pipes = network.by_link(cores, method, weights, seed)
            mean = statistics.mean(load)
            rows.append({
                "efficiency": efficiency, "max": max(load), "mean": mean, "spread": statistics.pstdev(load),
                "excess": max(load) / mean - 1, "expected": expected["efficiency"], "expected_max": expected["load"]["max"],
                "by_link": pipes["efficiency"], "by_link_max": pipes["load"]["max"],
                "by_link_excess": pipes["load"]["max"] / pipes["load"]["mean"] - 1,
            })
        found[name] = {field: statistics.median(row[field] for row in rows) for field in rows[0]}
    return found


def claims(found, small):
    """What holds at every size: partitions that look at the network beat chance, and predictions are close."""
    for (name, count), at in found.items():
        for method in ("k-cluster", "metis", "best"):
            run_data.claim(at[method]["efficiency"] > at["random"]["efficiency"], f"{name}, {count} cores: {method} is less efficient than random")
        # A short run fills queues more than it sends.
        for method, row in at.items() if not small else ():
            off = abs(row["expected"] / row["efficiency"] - 1)
            run_data.claim(off < 0.12, f"{name}, {count} cores, {method}: efficiency {row['efficiency']:.3f}, expected {row['expected']:.3f}")


def loads_held(held, found, cores):
    """Figures 8 and 9: the busiest core, and the mean of all."""
    busiest = lambda name, count, method, field="max": found[name, count][method][field]
    for method in ("random", "k-cluster", "metis"):
        held.expect(f"h2, 2 cores, {NAMES.get(method, method)}: busiest core", "8: overloaded, above 1", busiest("h2", 2, method), 1)
    held.expect("h5, random, the least of 2 to 8 cores: busiest core", "8: overloaded, above 1", min(busiest("h5", n, "random") for n in cores), 1)
    held.expect("h5, 8 cores, METIS: busiest core", "8: 0.71 at most", busiest("h5", 8, "metis"), high=0.71)
    for method in ("k-cluster", "metis", "best"):
        held.expect(f"Internet-like, 4 cores, {NAMES.get(method, method)}: busiest core", "" if method == "best" else "8: below 1", busiest("internet", 4, method), high=1)
    held.expect("Internet-like, 8 cores, random: busiest core", "8: below 1", busiest("internet", 8, "random"), 1, 1.4)
    held.expect("the same by link", "8: below 1", busiest("internet", 8, "random", "by_link_max"), high=1)
    for name, title in (("h5", "h5"), ("internet", "Internet-like")):
        for method in ("k-cluster", "metis"):
            most = max(busiest(name, n, method, "mean") / busiest(name, n, "random", "mean") for n in cores)
            held.expect(f"{title}, the most of 2 to 8 cores: mean load of {NAMES.get(method, method)} over that of random", "9: well below 1", most, high=0.55)
    held.expect("Internet-like, METIS: busiest core above the mean, 8 cores over 4", "9: rises, above 1",
                busiest("internet", 8, "metis", "excess") / busiest("internet", 4, "metis", "excess"), 2)  # fmt: skip
    worst = max(found, key=lambda where: found[where]["best"]["by_link_excess"])
    held.expect(f"by link, best, the most of all ({worst[0]}, {worst[1]} cores): busiest core above the mean", "",
                found[worst]["best"]["by_link_excess"], high=0.15)  # fmt: skip


def efficiencies_held(held, found):
    """Figure 10."""
    ratio = lambda name, count, field, one, other: found[name, count][one][field] / found[name, count][other][field]
    for field, by in (("efficiency", ""), ("by_link", ", by link")):
        over = lambda name, count, one, other: ratio(name, count, field, one, other)
        held.expect(f"h5, 4 cores{by}: efficiency of METIS over random", "10: above 2", over("h5", 4, "metis", "random"), 2)
        low, high = (1.2, 1.4) if not by else (1.05, 1.4)
        held.expect(f"h5, 4 cores{by}: METIS over k-cluster", "10: 1.36", over("h5", 4, "metis", "k-cluster"), low, high)
        held.expect(f"Internet-like, 8 cores{by}: METIS over random", "10: 1.65", over("internet", 8, "metis", "random"), 1.65, 3)
        held.expect(f"Internet-like, 8 cores{by}: METIS over k-cluster", "10: 1 or more", over("internet", 8, "metis", "k-cluster"), 1)
        kept = lambda name, many, few: found[name, many]["metis"][field] / found[name, few]["metis"][field]
        held.expect(f"h5, METIS{by}: 8 cores over 4", "10: constant, 1", kept("h5", 8, 4), 0.6, 1)
        held.expect(f"Internet-like, METIS{by}: 8 cores over 7", "10: falls slowly", kept("internet", 8, 7), 0.95, 1)
    held.expect("4 cores: METIS over random, on h5 over that on h2", "10: h2 is amenable to random",
                ratio("h5", 4, "efficiency", "metis", "random") / ratio("h2", 4, "efficiency", "metis", "random"), 1.5)  # fmt: skip
    held.expect("Internet-like, 8 cores, by link: busiest core of METIS over that of best", "", ratio("internet", 8, "by_link_max", "metis", "best"), 1.1)


def models_held(held, rows):
    """Figures 2 to 4: at any size of the run, as nothing is counted."""
    bands = [(1, None), (5, 6), (115, 120), (0.6, 1), (0.85, 1), (0.95, None), (1.1, 1.5), (74, 78), (None, model.capacity(1, 10, 1) / 1e3), (0.36, 0.39), (0.15, 0.18)]
    for (number, what, paper, here), (low, high) in zip(rows, bands, strict=True):
        held.expect(f"model: {what}", f"{number}: {paper}", here, low, high, always=True)
    for cached, name in ((True, "caching"), (False, "shipping")):
        rates = [(str(n), model.link(n, cached)) for n in (1, 5, 15)]
        held.order(f"model, {name}: packets/s by crossings", "2: fall with each", rates, always=True)


def models(figure):
    """Figures 2 to 4: panels, and the table of what the paper prints."""
    steps = range(16)
    kilo = lambda values: [(n, value / 1e3) for n, value in values]
    two = chart.Panel("Links of 1 Gbit/s are the limit (Figure 2)", "crossings of a packet", "packets/s and core (thousands)")
    left = chart.Panel("CPUs are the limit (Figure 3, left)", "crossings of a packet", "packets/s and core (thousands)")
    right = chart.Panel("Two cores (Figure 3, right)", "crossings of a packet", "packets/s and core (thousands)")
    for colour, (name, cached) in enumerate([("payload caching", True), ("payload shipping", False)]):
        two.line(name, kilo((n, model.link(n, cached)) for n in steps), colour)
        left.line(name, kilo((n, model.cpu(n, cached)) for n in steps), colour)
        right.line(name, kilo((n, model.two_cores(n, cached)) for n in steps), colour)
    four = chart.Panel("Capacity by efficiency, path of 10 (Figure 4)", "efficiency", "packets/s (thousands)", x_range=(0, 1))
    shares = [n / 50 for n in range(5, 51)]
    for colour, cores in enumerate((4, 2)):
        four.line(f"{cores} cores", kilo((e, model.capacity(cores, 10, e)) for e in shares), colour)
    four.line("one core", kilo((e, model.capacity(1, 10, 1)) for e in (0, 1)), 3, dashed=True)
    four.line("4 cores at their worst", kilo((e, model.capacity(4, 10, 0.1)) for e in (0, 1)), 2, dashed=True)
    over = lambda at, n: at(n, True) / at(n, False)
    rows = [
        ["2", "caching over shipping, 1 crossing", "above 1", over(model.link, 1)],
        ["2", "the same, 10 crossings", "more with each", over(model.link, 10)],
        ["3", "packets/s of a core (thousands)", "117", model.CORE / 1e3],
        ["3 left", "caching over shipping, 1 crossing", "below 1", over(model.cpu, 1)],
        ["3 left", "the same, 8 crossings", "near 1", over(model.cpu, 8)],
        ["3 right", "the same on two cores, the least of 0 to 15", "no penalty", min(over(model.two_cores, n) for n in steps)],
        ["3 right", "the same, 10 crossings", "1.2", over(model.two_cores, 10)],
        ["4", "one core, packets/s (thousands)", "75", model.capacity(1, 10, 1) / 1e3],
        ["4", "4 cores at their worst (thousands)", "below one core", model.capacity(4, 10, 0.1) / 1e3],
        ["4", "2 cores break even at efficiency", "0.37", model.break_even(2, 10)],
        ["4", "4 cores break even at efficiency", "0.16", model.break_even(4, 10)],
    ]
    chart.save_table(figure.with_name("models.md"), ["figure", "what", "paper", "here"], rows)
    return [[two, left], [right, four]], rows


def curves(found, name, cores, top):
    """Figures 8 to 10 of a network."""
    panels = []
    title_of = {"internet": "Internet-like"}.get(name, name)
    for title, field, axis in (("Busiest core (Figure 8)", "max", "load"), ("Mean of the cores (Figure 9)", "mean", "load"), ("Efficiency (Figure 10)", "efficiency", "packets from the edge over all")):
        counts = [(n, f"{n}") for n in cores]
        panel = chart.Panel(f"{title_of}: {title}", "cores", axis, x_range=(cores[0] - 0.2, cores[-1] + 0.4), y_range=(0, 0.8 if field == "efficiency" else top), x_ticks=counts)
        if field != "efficiency":
            panel.line("overloaded above", [(cores[0] - 0.2, 1), (cores[-1] + 0.4, 1)], 3, dashed=True)
        for colour, method in zip((0, 1, 2, 4), DRAWN[::-1]):
            at = lambda n: found[name, n][method]
            points = [(n, at(n)[field]) for n in cores]
            panel.line(NAMES.get(method, method), points, colour)
            if field == "mean":
                panel.ranges("", [(n + 0.06 * colour, at(n)["mean"] - at(n)["spread"], at(n)["mean"] + at(n)["spread"]) for n in cores], colour)
            if field == "efficiency":
                panel.dots("", [(n, at(n)["by_link"]) for n in cores], colour, hollow=True)
        if field == "efficiency":
            panel.dots("by link", [], 3, hollow=True)
        panels.append(panel)
    return panels


def tables(found, cores, figure, networks):
    """The tables of the README."""
    last, four = max(cores), 4
    for name in ("h2", "h5", "internet"):
        rows = []
        for count in cores:
            for method, row in found[name, count].items():
                fields = ("efficiency", "max", "mean", "excess", "expected", "expected_max", "by_link", "by_link_max", "by_link_excess")
                rows.append([count, method, *(row[field] for field in fields)])
        names = ["cores", "method", "efficiency", "max load", "mean load", "above mean", "efficiency, expected", "max load, expected", "efficiency, by link", "max load, by link", "above mean, by link"]
        chart.save_table(figure.with_name(f"{name}.md"), names, rows)
    def line(what, paper, name, count, over, under):
        top, base = found[name, count][over], found[name, count][under]
        ratio = lambda field: top[field] / base[field]
        return [what, paper, ratio("efficiency"), 1 / ratio("max"), ratio("by_link"), 1 / ratio("by_link_max")]
    rows = [
        line("h5, 4 cores, METIS over random", "above 2", "h5", four, "metis", "random"),
        line("h5, 4 cores, METIS over k-cluster", "1.36", "h5", four, "metis", "k-cluster"),
        line(f"internet, {last} cores, METIS over random", "1.65", "internet", last, "metis", "random"),
        line(f"internet, {last} cores, METIS over k-cluster", "as good or better", "internet", last, "metis", "k-cluster"),
        line(f"internet, {last} cores, METIS (flows known) over random", "1.65", "internet", last, "metis (flows known)", "random"),
        line("h5, 4 cores, best over METIS", "", "h5", four, "best", "metis"),
        line(f"internet, {last} cores, best over METIS", "", "internet", last, "best", "metis"),
    ]
    chart.save_table(figure.with_name("ratios.md"), ["what", "paper", "efficiency", "traffic at equal max load", "efficiency, by link", "traffic at equal max load, by link"], rows)
    fits = lambda name, method, field: next((str(n) for n in cores if found[name, n][method][field] < 1), f"none up to {last}")
    at = lambda name, method, field: [fits(name, method, field), found[name, last][method][field]]
    rows = [[name, method, paper, *at(name, method, "max"), *at(name, method, "by_link_max")] for name, method, paper in (
        ("h2", "random", "more than 2"), ("h2", "k-cluster", "more than 2"), ("h2", "metis", "more than 2"), ("h2", "best", ""),
        ("h5", "random", "none up to 8"), ("h5", "k-cluster", ""), ("h5", "metis", "max load 0.71 or less"), ("h5", "best", ""),
        ("internet", "random", "8"), ("internet", "k-cluster", "4"), ("internet", "metis", "4"), ("internet", "best", ""),
    )]
    busiest = lambda network: max(network.through().items(), key=lambda pair: pair[1])
    hubs = [[name, *busiest(network), network.entered / network.seconds, busiest(network)[1] * (loads.HOP + 2 * loads.SIDE)] for name, network in networks.items()]
    chart.save_table(figure.with_name("hubs.md"), ["network", "busiest router", "packets/s through it", "edge packets/s", "load of a core with it alone"], hubs)
    chart.save_table(figure.with_name("overload.md"), ["network", "method", "paper", "cores without overload", f"max load, {last} cores", "without overload, by link", f"max load, {last} cores, by link"], rows)


def main():
    run = pathlib.Path(sys.argv[1])
    found_networks = networks(run)
    small = found_networks["internet"].seconds < 5
    cores, seeds = ([2, 4], [1]) if small else (list(range(2, 9)), [1, 2, 3])
    found = {(name, count): measure(network, count, seeds) for name, network in found_networks.items() for count in cores}
    for name, network in found_networks.items():
        owner, _ = network.split(cores[-1], "k-cluster", "expected", 1)
        network.confirm(owner)
    figure = run / "figures" / "partitioning"
    figure.parent.mkdir(exist_ok=True)
    drawn, modelled = models(figure)
    rows = drawn + [curves(found, name, cores, {"h2": 2.5, "h5": 4.5, "internet": 3}[name]) for name in found_networks]
    chart.save(figure.with_suffix(".svg"), "Partitions of a network over cores", rows)
    lines = [[name, count, method, *row.values()] for (name, count), at in found.items() for method, row in at.items()]
    fields = list(next(iter(found.values()))["random"])
    chart.save_csv(figure.with_suffix(".csv"), ["network", "cores", "method", *fields], lines)
    tables(found, cores, figure, found_networks)
    claims(found, small)
    held = findings.Findings(run, full=not small)
    models_held(held, modelled)
    if not small:
        loads_held(held, found, cores)
        efficiencies_held(held, found)
    held.settle(figure.with_name("findings.md"))
    print(figure.with_suffix(".svg"))


main()
