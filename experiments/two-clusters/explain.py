"""Shows what the programs of a run said, and what its verdict means."""

import json
import pathlib
import sys

MEANING = {
    "faithful": """\
These are the figures of that network, off by no more than the verdict's line says.
Now change a link in experiments/two-clusters/experiment.yaml, and run it again.""",
    "degraded": """\
This machine did not keep every promise, so these figures may be off by what the verdict's line says.
If that is close enough, use them; if not, run it again at a quieter time.""",
    "broken": """\
This machine did not keep up, for the reasons above: the programs ran, but do not use their figures.
Run it again at a quieter time; `longhaul doctor` names what stands in the way.""",
}

folder = pathlib.Path(sys.argv[1])
summary = json.loads((folder / "summary.json").read_text())
run = pathlib.Path(summary["run"])
print("\nWhat the programs said:")
for log in sorted(run.glob("logs/fetch@*.out")) + [run / "logs/probe.out"]:
    print("  " + log.read_text().strip())
print(f"\n{MEANING[summary['verdict']['state']]}")
print(f"\nThe whole run, to look at: {run / 'report.html'}")
