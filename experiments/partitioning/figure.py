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


def claims(found, cores):
    """What the paper found, of every network that is large enough to ask."""
    for (name, count), at in found.items():
        for method in ("k-cluster", "metis", "best"):
            run_data.claim(at[method]["efficiency"] > at["random"]["efficiency"], f"{name}, {count} cores: {method} is less efficient than random")
    if len(cores) < 7:
        return
    # A short run fills queues more than it sends.
    for (name, count), at in found.items():
        for method, row in at.items():
            off = abs(row["expected"] / row["efficiency"] - 1)
            run_data.claim(off < 0.12, f"{name}, {count} cores, {method}: efficiency {row['efficiency']:.3f}, expected {row['expected']:.3f}")
    ratio = lambda name, count, field, a, b: found[name, count][a][field] / found[name, count][b][field]
    run_data.claim(ratio("h5", 4, "efficiency", "metis", "random") >= 2, "h5, 4 cores: METIS is not twice as efficient as random")
    run_data.claim(ratio("internet", 8, "efficiency", "metis", "random") >= 1.65, "internet, 8 cores: METIS is not 65 % more efficient than random")
    run_data.claim(found["h2", 2]["random"]["max"] > 1 and found["h2", 2]["metis"]["max"] > 1, "h2 with 2 cores is not overloaded")
    run_data.claim(all(found["h5", n]["random"]["max"] > 1 for n in cores), "h5 at random is not overloaded")
    run_data.claim(found["h5", 8]["metis"]["max"] < 1, "h5 with 8 cores and METIS is overloaded")
    run_data.claim(all(found["internet", 4][method]["max"] < 1 for method in ("k-cluster", "metis", "best")), "internet with 4 cores is overloaded")
    for name, count in (("h5", 4), ("internet", 8)):
        run_data.claim(ratio(name, count, "by_link", "metis", "k-cluster") >= 0.98, f"{name}, {count} cores, by link: METIS is worse than k-cluster")
    run_data.claim(1 / ratio("internet", 8, "by_link_max", "best", "metis") >= 1.1, "internet, 8 cores, by link: best does not carry 10 % more than METIS")
    run_data.claim(ratio("h5", 4, "by_link", "metis", "random") >= 2 and ratio("internet", 8, "by_link", "metis", "random") >= 1.65, "by link: METIS is not as far above random as in the paper")
    for (name, count), at in found.items():
        run_data.claim(at["best"]["by_link_excess"] <= 0.15, f"{name}, {count} cores, by link: the busiest core of best is {at['best']['by_link_excess']:.3f} above the mean")


def models(figure):
    """Figures 2 to 4: panels, and the table of what the paper prints."""
    steps = range(16)
    kilo = lambda values: [(n, value / 1e3) for n, value in values]
    two = chart.Panel("Links of 1 Gbit/s are the limit (Figure 2)", "crossings of a packet", "1000 packets/s and core")
    left = chart.Panel("CPUs are the limit (Figure 3, left)", "crossings of a packet", "1000 packets/s and core")
    right = chart.Panel("Two cores (Figure 3, right)", "crossings of a packet", "1000 packets/s and core")
    for colour, (name, cached) in enumerate([("payload caching", True), ("payload shipping", False)]):
        two.line(name, kilo((n, model.link(n, cached)) for n in steps), colour)
        left.line(name, kilo((n, model.cpu(n, cached)) for n in steps), colour)
        right.line(name, kilo((n, model.two_cores(n, cached)) for n in steps), colour)
    four = chart.Panel("Capacity by efficiency, path of 10 (Figure 4)", "efficiency", "1000 packets/s", x_range=(0, 1))
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
    return [[two, left], [right, four]]


def curves(found, name, cores, top):
    """Figures 8 to 10 of a network."""
    panels = []
    for title, field, axis in (("Busiest core (Figure 8)", "max", "load"), ("Mean of the cores (Figure 9)", "mean", "load"), ("Efficiency (Figure 10)", "efficiency", "edge / all packets")):
        panel = chart.Panel(f"{name}: {title}", "cores", axis, x_range=(1.8, 8.5), y_range=(0, 1.2 if field == "efficiency" else top))
        for colour, method in enumerate(DRAWN[::-1]):
            at = lambda n: found[name, n][method]
            points = [(n, at(n)[field]) for n in cores]
            panel.line(method, points, colour)
            if field == "mean":
                panel.ranges("", [(n + 0.06 * colour, at(n)["mean"] - at(n)["spread"], at(n)["mean"] + at(n)["spread"]) for n in cores], colour)
            if field == "efficiency":
                panel.dots("", [(n, at(n)["by_link"]) for n in cores], colour, hollow=True)
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
    rows = models(figure) + [curves(found, name, cores, {"h2": 2.5, "h5": 4.5, "internet": 3}[name]) for name in found_networks]
    chart.save(figure.with_suffix(".svg"), "Partitions of a network over cores", rows)
    lines = [[name, count, method, *row.values()] for (name, count), at in found.items() for method, row in at.items()]
    fields = list(next(iter(found.values()))["random"])
    chart.save_csv(figure.with_suffix(".csv"), ["network", "cores", "method", *fields], lines)
    tables(found, cores, figure, found_networks)
    claims(found, cores)
    print(figure.with_suffix(".svg"))


main()
