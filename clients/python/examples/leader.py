"""Leads for one term, or until it is not the leader any more."""

import asyncio
import os
from pathlib import Path

import meshlock
from watch import watch_async

#: How long a leader works: 100 ms, or what MESHLOCK_TERM says.
TERM = int(os.environ.get("MESHLOCK_TERM", "100")) / 1000


async def turn(_: Path, term: int) -> None:
    client = meshlock.AsyncClient(os.environ["MESHLOCK_API"])
    leadership = await client.elect("examples/leader", f"candidate of Python, term {term}")
    async with watch_async(leadership):
        try:
            await asyncio.wait_for(leadership.lost(), TERM)  # its work takes so long
        except asyncio.TimeoutError:
            print("done leader", flush=True)
        else:
            raise meshlock.Lost(str(leadership.why_lost))
    await leadership.release()
