"""Adds 1 to the number in a file."""

import os
from pathlib import Path

import meshlock
from watch import watch

client = meshlock.Client(os.environ["MESHLOCK_API"])


def turn(directory: Path, _: int) -> None:
    with client.lock("examples/counter") as held, watch(held):
        file, new = directory / "counter", directory / "counter.new"
        new.write_text(f"{int(file.read_text()) + 1}\n")
        # Before the step that cannot be undone: is the lock still held?
        if held.is_lost():
            raise meshlock.Lost(str(held.why_lost))
        new.rename(file)
        print("done counter", flush=True)
