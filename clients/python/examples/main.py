"""The five examples that all clients share, and which docs/clients.md shows side by side. The nodes' addresses are in MESHLOCK_API.

    python3 examples/main.py counter DIR 10 0

takes ten turns of one of them, with its files in DIR; the last number is that of the first job of `once`.
"""

import asyncio
import os
import sys
from pathlib import Path

import counter
import database
import leader
import meshlock
import once
import pool

EXAMPLES = {
    "counter": counter.turn,
    "leader": leader.turn,
    "pool": pool.turn,
    "once": once.turn,
    "database": database.turn,
}


def main() -> None:
    if len(sys.argv) != 5 or sys.argv[1] not in EXAMPLES:
        sys.exit("usage: main.py counter|leader|pool|once|database DIR TURNS FIRST")
    name, directory, turns, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    turn = first
    while turn < first + turns:
        try:
            begun = EXAMPLES[name](directory, turn)
            # Two of them are coroutines; the others are over.
            if begun is not None:
                asyncio.run(begun)
            turn += 1
        except meshlock.Lost:
            # A turn whose lock was lost is taken again.
            pass


if __name__ == "__main__":
    if "MESHLOCK_API" not in os.environ:
        sys.exit("MESHLOCK_API names no node")
    main()
