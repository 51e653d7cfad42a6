"""Changes a row that remembers the largest fence, and refuses smaller ones."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import meshlock
from watch import watch

client = meshlock.Client(os.environ["MESHLOCK_API"])


def turn(directory: Path, _: int) -> None:
    with client.lock("examples/database") as held, watch(held):
        with closing(sqlite3.connect(directory / "bank.db", timeout=10)) as database, database:
            changed = database.execute(
                "UPDATE account SET balance = balance + 1, fence = :fence WHERE id = 1 AND fence <= :fence",
                {"fence": held.fence},
            ).rowcount
        if changed != 1:
            raise meshlock.Lost("a later holder was here: the row is as it left it")
        print("done database", flush=True)
