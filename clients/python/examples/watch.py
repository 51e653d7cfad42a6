"""Notes for how long a program believes in its lock.

At the end it prints the lock, its fence, the permit's number, and the first and the last moment at which the client said that the lock
is held, in microseconds. Tests look whether such times of different programs overlap.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import AsyncIterator, Iterator, Union

import meshlock


class _Seen:
    def __init__(self, held: Union[meshlock.Held, meshlock.AsyncHeld]) -> None:
        self.held = held
        self.start = self.until = time.time_ns() // 1000

    def look(self) -> bool:
        # The time is taken before the question: the lock was held then if it is held now.
        at = time.time_ns() // 1000
        if self.held.is_lost():
            return False
        self.until = at
        return True

    def tell(self) -> None:
        self.look()
        print("held", self.held.name, self.held.fence, self.held.slot or 0, self.start, self.until, flush=True)


@contextmanager
def watch(held: meshlock.Held) -> Iterator[None]:
    seen, ended = _Seen(held), threading.Event()

    def look() -> None:
        while seen.look() and not ended.wait(0.005):
            pass

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        seen.tell()


@asynccontextmanager
async def watch_async(held: meshlock.AsyncHeld) -> AsyncIterator[None]:
    seen = _Seen(held)

    async def look() -> None:
        while seen.look():
            await asyncio.sleep(0.005)

    looking = asyncio.ensure_future(look())
    try:
        yield
    finally:
        looking.cancel()
        seen.tell()
