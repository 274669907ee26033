"""Reads the series of a run by one glob each, in pandas and in DuckDB, and holds their sums to the summary."""

import json
import pathlib
import sys

import duckdb
import pandas

COUNTERS = ["packets", "bytes", "drops_queue", "drops_early", "drops_loss", "drops_down", "duplicated"]


def check(name, found, expected):
    if found != expected:
        sys.exit(f"{name}: {found}, and the summary has {expected}")


def main():
    run = pathlib.Path(sys.argv[1])
    summary = json.loads((run / "summary.json").read_text())
    expected = {pipe["name"]: {counter: pipe[counter] for counter in COUNTERS} for pipe in summary["pipes"]}

    p = pandas.read_parquet(run / "series" / "pipes")
    check("kinds", p.dtypes.astype(str)[["start_ns", "packets", "queue_mean"]].tolist(), ["int64", "int64", "float64"])
    sums = p.groupby(p["pipe"])[COUNTERS].sum().to_dict("index")
    nothing = dict.fromkeys(COUNTERS, 0)
    check("pandas", {name: sums.get(name, nothing) for name in expected}, expected)
    check("names", set(p["pipe"]) - set(expected), set())

    sums = ", ".join(f"sum({counter})::bigint" for counter in COUNTERS)
    rows = duckdb.sql(f"SELECT pipe, {sums} FROM '{run}/series/pipes/*.parquet' GROUP BY pipe").fetchall()
    sums = {name: dict(zip(COUNTERS, counts)) for name, *counts in rows}
    check("DuckDB", {name: sums.get(name, nothing) for name in expected}, expected)

    packets = summary["packets"]
    whole = [packets["entered"], packets["delivered"], sum(packets["dropped"].values())]
    f = pandas.read_parquet(run / "series" / "flows")
    check("flows", f[["sent", "received", "dropped"]].sum().tolist(), whole)
    core = duckdb.sql(
        f"SELECT sum(entered)::bigint, sum(delivered)::bigint, sum(dropped)::bigint FROM '{run}/series/core/*.parquet'"
    )
    check("core", list(core.fetchall()[0]), whole)
    for entry in summary["series"]:
        rows = duckdb.sql(f"SELECT count(*) FROM '{run}/series/{entry['name']}/*.parquet'").fetchall()[0][0]
        check(entry["name"], rows, entry["rows"])


main()
