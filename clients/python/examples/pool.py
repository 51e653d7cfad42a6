"""Uses one of three connections. The permit's number says which."""

import asyncio
import os
from pathlib import Path
from typing import Optional

import meshlock
from watch import watch_async


async def turn(_: Path, __: int) -> None:
    client = meshlock.AsyncClient(os.environ["MESHLOCK_API"])
    async with client.lock("examples/pool", permits=3) as permit, watch_async(permit):
        work = asyncio.ensure_future(use(permit.slot))
        lost = asyncio.ensure_future(permit.lost())
        await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        if not work.done():
            work.cancel()
            raise meshlock.Lost(str(permit.why_lost))


async def use(connection: Optional[int]) -> None:
    await asyncio.sleep(0.01)
    print("done pool", connection, flush=True)
