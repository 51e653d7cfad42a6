"""Does a job that many programs want done, and of which one does it."""

import os
from pathlib import Path

import meshlock
from watch import watch

client = meshlock.Client(os.environ["MESHLOCK_API"])


def turn(directory: Path, job: int) -> None:
    with client.lock("examples/once") as held, watch(held):
        marker = directory / f"job-{job}"
        if marker.exists():
            return  # somebody has done it
        if held.is_lost():
            raise meshlock.Lost(str(held.why_lost))
        print("done once", job, flush=True)  # the job
        marker.touch()
