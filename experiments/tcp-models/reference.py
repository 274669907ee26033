"""The TCP model over the links of the run: `reference.py RUN`.

Writes RUN/model/NAME-QUEUE.csv with the columns of `longhaul traffic bulk --series`, as long as
the kernel's flow of the same name was.
"""

import pathlib
import shutil
import subprocess
import sys

import flows


def main():
    run = pathlib.Path(sys.argv[1])
    built = pathlib.Path(__file__).resolve().parents[2] / "target/release/longhaul-bench"
    program = shutil.which("longhaul-bench") or (built if built.exists() else None)
    if not run.is_dir() or not program:
        what = "`longhaul-bench` is missing: cargo build --release -p longhaul-bench"
        print(f"no model beside the kernel: {what if not program else f'the run {run} is missing'}")
        return
    (run / "model").mkdir(exist_ok=True)
    for (queue, name), path in flows.kernel(run).items():
        rows = flows.series(path)
        command = [program, "tcp-model", "--congestion", name, "--queue", f"{queue} packets",
                   "--for", f"{rows[-1]['t_s']:.3f} s", "--series", run / "model" / path.name]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


main()
