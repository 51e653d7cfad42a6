"""The command that `consul lock` runs: it holds the lock for as long as it runs, and says on CLOCK_MONOTONIC when it was told to stop."""

import signal
import sys
import time


def stop(*_):
    print("lost", time.monotonic_ns(), flush=True)
    sys.exit()


signal.signal(signal.SIGTERM, stop)
print("held by consul", flush=True)
signal.pause()
