"""The flows of this experiment: what figure.py and reference.py both know."""

import csv

QUEUES = [(165, "a", "one bandwidth-delay product"), (41, "c", "a quarter of it")]
ALGORITHMS = ["reno", "cubic", "bbr"]


def series(path):
    """The lines of a kernel's series: times from the first on, numbers as such."""
    with open(path, newline="") as file:
        rows = [{name: float(text) if text else None for name, text in row.items()} for row in csv.DictReader(file)]
    start = rows[0]["t_s"] if rows else 0.0
    return [{**row, "t_s": row["t_s"] - start} for row in rows]


def kernel(run):
    """Path of the kernel's series by (queue, algorithm), of those that ran."""
    found = {}
    for queue, host, _ in QUEUES:
        for name in ALGORITHMS:
            path = run / "kernel" / "hosts" / host / f"{name}-{queue}.csv"
            if path.exists():
                found[queue, name] = path
    return found
