"""The same as session.py with aetcd."""

import asyncio
import sys
import time

import aetcd

host, port = sys.argv[1].rsplit(":", 1)


async def main():
    lock = aetcd.Client(host=host, port=int(port), timeout=1).lock(b"jobs", ttl=60)
    assert await lock.acquire()
    told = time.monotonic() + lock.lease.ttl
    print("held", time.monotonic_ns(), flush=True)
    while (left := told - time.monotonic()) > 0:
        asked = time.monotonic()
        try:
            answer = await asyncio.wait_for(lock.refresh(), left)
            told = asked + answer.TTL if answer.TTL > 0 else 0
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
        await asyncio.sleep(max(0, min(0.5, told - time.monotonic())))
    print("lost", time.monotonic_ns(), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
