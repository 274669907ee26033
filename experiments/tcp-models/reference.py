"""The kernel's flows over the links of the run: `reference.py RUN`.

Runs kernel.yaml, which needs namespaces and takes two minutes, into RUN/kernel. The machine must be
left alone meanwhile. What cannot be had is said, and no failure.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    run = pathlib.Path(sys.argv[1])
    built = HERE.parents[1] / "target/release/longhaul"
    program = os.environ.get("LONGHAUL") or (built if built.exists() else shutil.which("longhaul"))
    if not run.is_dir() or not program:
        what = "`longhaul` is missing: make build" if not program else f"the run {run} is missing"
        print(f"no kernel beside the model: {what}")
        return
    command = [program, "run", HERE / "kernel.yaml", "--out", run / "kernel", "--force", "--quiet"]
    code = subprocess.run(command).returncode
    if code not in (0, 3):
        shutil.rmtree(run / "kernel", ignore_errors=True)
        print(f"no kernel beside the model: its run ended with {code} (`longhaul doctor` says what is missing)")
    elif code == 3:
        print("the kernel's run was not faithful: its curves may differ from the model's for that reason")


main()
