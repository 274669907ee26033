"""What a paper found, held against a run: who wins, in which order, by how much.

Each finding is a number of the run and the band that it must be in. Where the paper's own value is not in
the band, the README of the experiment says why. Every figure is first drawn; then `settle` writes all
findings as a table and ends the program with 1 if one does not hold.

A run that was changed by `--set` is another experiment than the paper's: its findings are written down, and
only those that hold at any size (`always`) can fail.
"""

import pathlib
import sys

import chart


def changed(run):
    """Whether a run was made with overrides: they stand at the end of its experiment file."""
    text = (pathlib.Path(run) / "experiment.yaml").read_text()
    return any(line.startswith("# run with --set ") for line in text.splitlines())


def band(low, high):
    """A band in words."""
    if low is None:
        return f"at most {chart.number(float(high))}"
    if high is None:
        return f"at least {chart.number(float(low))}"
    return f"{chart.number(float(low))} to {chart.number(float(high))}"


class Findings:
    """The findings of one run."""

    def __init__(self, run, full=None):
        """`full` says whether the run has the size of the paper's; without it, whether nothing was changed."""
        self.run = pathlib.Path(run)
        self.full = not changed(run) if full is None else full
        self.rows, self.failures = [], []

    def expect(self, what, paper, measured, low=None, high=None, always=False):
        """Holds one number against its band; `paper` is the paper's value or words, empty where it says nothing."""
        holds = measured is not None and (low is None or measured >= low) and (high is None or measured <= high)
        self.rows.append([what, paper, band(low, high), None if measured is None else float(measured)])
        if not holds and (self.full or always):
            said = f" (the paper: {paper})" if paper else ""
            self.failures.append(f"{what}: expected {band(low, high)}{said}, measured {chart.number(measured) or 'nothing'}")

    def order(self, what, paper, values, always=False):
        """Holds that `values`, (name, number) each, fall from first to last; equal ones may stand side by side."""
        for (one, high), (other, low) in zip(values, values[1:]):
            ratio = None if None in (high, low) or low == 0 else high / low
            self.expect(f"{what}: {one} over {other}", paper, ratio, low=1, always=always)

    def settle(self, path):
        """Writes the table and ends the program where something did not hold."""
        chart.save_table(path, ["what", "paper", "expected", "here"], self.rows)
        if self.failures:
            where = f"see {path}, data in {self.run}"
            sys.exit("\n".join(f"{pathlib.Path(sys.argv[0]).resolve().parent.name}: {text}; {where}" for text in self.failures))
