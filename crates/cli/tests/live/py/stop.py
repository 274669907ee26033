"""Stops process PID for HOLD ms in every EVERY ms, until it is gone."""

import os
import signal
import sys
import time

pid, hold, every = int(sys.argv[1]), float(sys.argv[2]) / 1e3, float(sys.argv[3]) / 1e3
due = time.monotonic()
try:
    while True:
        due += every
        time.sleep(max(0, due - time.monotonic()))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(hold)
        os.kill(pid, signal.SIGCONT)
except ProcessLookupError:
    pass
