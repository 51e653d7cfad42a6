"""The client for asyncio."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Awaitable, Dict, Iterable, List, Optional, Set, Tuple, Union

from . import _errors, _nearest, _session, _wire
from ._errors import Error, Lost, Unreachable
from ._session import Ask, AskAll, Result, Session, Steps


class _Answer:
    """An answer that is read as it arrives: HTTP/1.1 with a length or in chunks."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.status = 0
        self.headers: Dict[str, str] = {}
        self._left: Optional[int] = None
        self._chunked = False
        self._buffer = b""

    async def head(self) -> None:
        """Reads the status line and the headers."""
        parts = (await self._reader.readline()).split()
        if len(parts) < 2 or not parts[1].isdigit():
            raise EOFError("the node ended the connection before it answered; look at its log")
        self.status = int(parts[1])
        while len(self.headers) < 100:
            name, _, value = (await self._reader.readline()).decode("latin-1").partition(":")
            if not value:
                break
            self.headers[name.lower()] = value.strip()
        length = self.headers.get("content-length")
        self._left = int(length) if length is not None and length.isdecimal() else None
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()

    def may_be_followed(self) -> bool:
        """Whether the connection can be used again after the answer."""
        is_long = self._left is None and not self._chunked
        return not is_long and self.headers.get("connection", "").lower() != "close"

    async def some(self) -> bytes:
        """Returns the next part of the body; empty at its end."""
        if self._chunked:
            size = int((await self._reader.readline()).split(b";")[0] or b"0", 16)
            if size > _wire.MAX_ANSWER:
                raise EOFError("the answer is too long")
            chunk = await self._reader.readexactly(size)
            await self._reader.readline()
            return chunk
        if self._left == 0:
            return b""
        part = await self._reader.read(65536 if self._left is None else min(self._left, 65536))
        if self._left is not None:
            if not part:
                raise EOFError("the answer was cut off")
            self._left -= len(part)
        return part

    async def line(self) -> bytes:
        """Returns the next line of the body; empty at its end."""
        while b"\n" not in self._buffer:
            more = await self.some()
            if not more:
                return b""
            self._buffer += more
            if len(self._buffer) > _wire.MAX_ANSWER:
                raise EOFError("a line of the answer is too long")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    async def all(self) -> bytes:
        """Returns the rest of the body."""
        whole = self._buffer
        while True:
            more = await self.some()
            if not more:
                return whole
            whole += more
            if len(whole) > _wire.MAX_ANSWER:
                raise EOFError("the answer is too long")


class Places(_session.Places):
    """The places, which one task at a time asks which is the nearest."""

    def __init__(self, endpoints: "Tuple[_wire.Endpoint, ...]") -> None:
        super().__init__(endpoints)
        #: It belongs to the event loop, which may not run yet.
        self._asking: Optional[asyncio.Lock] = None

    async def ask_all(self) -> None:
        """Asks which place is the nearest, unless another task has done so meanwhile."""
        self._asking = self._asking or asyncio.Lock()
        async with self._asking:
            if not self.is_known:
                self.prefer(await self._race())

    async def _race(self) -> List[int]:
        """Asks all places at once, and returns their order. When that is known, the other questions are cancelled."""
        race = _nearest.Race(len(self.endpoints), _wire.now())
        asked = {asyncio.ensure_future(self._serves(place)) for place in range(len(self.endpoints))}
        waiting = set(asked)
        try:
            until = race.waits_until()
            while until is not None:
                done, waiting = await asyncio.wait(
                    waiting, timeout=max(until - _wire.now(), 0.0), return_when=asyncio.FIRST_COMPLETED
                )
                if not done and _wire.now() >= until:
                    break
                for question in done:
                    race.on_answer(*question.result())
                until = race.waits_until()
        finally:
            for question in asked:
                question.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return race.order()

    async def _serves(self, place: int) -> Tuple[int, bool, float]:
        line = _AsyncLine(self)
        try:
            await line.ask(Ask(place, "GET", _nearest.QUESTION))
            return place, True, _wire.now()
        except Error:
            return place, False, _wire.now()
        finally:
            line.close()


class _AsyncLine:
    """A connection to one place at a time, which is used again for the next request there."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._place: Optional[int] = None
        self._streams: "Optional[tuple[asyncio.StreamReader, asyncio.StreamWriter]]" = None

    async def ask(self, ask: Ask) -> Any:
        """Sends a request, and returns the answer or raises the error that it contains."""
        is_used = self._streams is not None and self._place == ask.place
        try:
            return await self._ask(ask)
        except Unreachable:
            if not is_used:
                raise
            # The node may have closed the connection meanwhile. All requests may be repeated.
            return await self._ask(ask)

    async def _ask(self, ask: Ask) -> Any:
        where = self.places.endpoints[ask.place]
        is_whole = False
        try:
            answer, content = await asyncio.wait_for(self._whole(ask), ask.within)
            is_whole = answer.may_be_followed()
        except asyncio.TimeoutError as error:
            raise Unreachable(f"the node at {where} has not answered in time") from error
        except (OSError, EOFError, ValueError) as error:
            raise Unreachable(f"no node answers at {where}: {error}") from error
        finally:
            if not is_whole:
                self.close()
        if answer.status != 200:
            raise _error_of(answer, content)
        return _wire.read(content)

    async def _whole(self, ask: Ask) -> "tuple[_Answer, bytes]":
        answer = await self.send(ask)
        return answer, await answer.all()

    async def send(self, ask: Ask) -> _Answer:
        """Sends a request. Returns the answer without its body."""
        endpoint = self.places.endpoints[ask.place]
        if self._place != ask.place:
            self.close()
        if self._streams is None:
            opening = asyncio.open_connection(endpoint.host, endpoint.port, ssl=endpoint.tls)
            self._streams = await asyncio.wait_for(opening, _session.CONNECT_WITHIN)
            self._place = ask.place
            sock = self._streams[1].get_extra_info("socket")
            if sock is not None:
                _wire.enable_keep_alive(sock)
        reader, writer = self._streams
        content = b"" if ask.body is None else json.dumps(ask.body).encode()
        headers = {"Host": str(endpoint), **endpoint.headers(), "Content-Length": str(len(content))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"{ask.method} {ask.path} HTTP/1.1\r\n{lines}\r\n".encode() + content)
        await writer.drain()
        answer = _Answer(reader)
        await answer.head()
        return answer

    def close(self) -> None:
        """Closes the connection. The next request opens another one."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()


def _error_of(answer: _Answer, content: bytes) -> Error:
    try:
        said = _wire.read(content)
    except Error:
        said = {}
    return _errors.of(answer.status, said, _wire.retry_after(answer.headers.get("retry-after")))


async def _drive(steps: "Steps[Result]", line: _AsyncLine) -> Result:
    """Does what the steps say."""
    try:
        step = next(steps)
        while True:
            try:
                answer: Any = None
                if isinstance(step, Ask):
                    answer = await line.ask(step)
                elif isinstance(step, AskAll):
                    await line.places.ask_all()
                else:
                    await asyncio.sleep(step.seconds)
            except Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: Result = done.value
        return result


#: Tasks that nobody waits for: the loop itself does not keep them.
_background: "Set[asyncio.Task[None]]" = set()


def _in_background(work: Any) -> "asyncio.Task[None]":
    task: "asyncio.Task[None]" = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


class _AsyncKeeper:
    """The task that keeps a session alive until it is over."""

    def __init__(self, places: Places, session: Session) -> None:
        self.session = session
        self.over = asyncio.Event()
        self._places = places
        self.loop = asyncio.get_running_loop()
        self._line = _AsyncLine(places)
        #: The task that waits for the lock.
        self.waiting: "Optional[asyncio.Future[_wire.Grant]]" = None
        self._task = asyncio.ensure_future(self._keep())

    def end(self, why: Error) -> bool:
        """Notes why the session is over. The first reason counts; returns whether this is it."""
        if self.session.why is not None:
            return False
        self.session.why = why
        self.over.set()
        if self.waiting is not None:
            self.waiting.cancel()
        try:
            current = asyncio.current_task()
        except RuntimeError:
            # The loop has ended, and its tasks with it.
            return True
        if current is not self._task:
            self._task.cancel()
        if isinstance(why, Lost):
            # Others need not wait for what is lost.
            _in_background(self.delete())
        return True

    def is_over(self) -> bool:
        """Whether the session is over. It looks at the clock: the task may be late."""
        if not self.over.is_set() and self.session.left() <= 0:
            self.end(Lost("this program was busy or stopped for longer than the lock was safe"))
        return self.over.is_set()

    async def delete(self) -> None:
        """Ends the session at the nodes, if one of them can be told. Otherwise it ends when its time is over."""
        line = _AsyncLine(self._places)
        try:
            await _drive(self.session.delete(), line)
        except Error:
            pass
        finally:
            line.close()

    def on_forked(self) -> None:
        """Forgets the session in a child process, where the loop does not run."""
        self.over = asyncio.Event()
        self.over.set()
        self.session.why = Lost(_wire.FORKED)

    async def _keep(self) -> None:
        try:
            while not self.over.is_set():
                await asyncio.sleep(self.session.pause())
                lost = await _drive(self.session.confirm(), self._line)
                if lost is not None:
                    self.end(lost)
        finally:
            self._line.close()


class _AsyncHold(_session.Holding):
    """A granted lock, and what keeps it."""

    def __init__(self, keeper: _AsyncKeeper, grant: _wire.Grant) -> None:
        super().__init__(keeper.session, grant)
        self.keeper = keeper

    def release(self) -> "Awaitable[None]":
        if not self.keeper.is_over() and self.keeper.end(Error("released", "the lock was released")):
            self.is_released = True
            return _in_background(self.keeper.delete())
        nothing: "asyncio.Future[None]" = self.keeper.loop.create_future()
        nothing.set_result(None)
        return nothing

    def on_forgotten(self) -> None:
        """Releases a lock that the program has lost track of, in its event loop: this may be called at any moment."""
        if not self.keeper.over.is_set():
            _wire.warn_forgotten(self.grant.lock)
            try:
                self.keeper.loop.call_soon_threadsafe(self.release)
            except RuntimeError:
                # The loop has ended; the nodes free the lock when its time is over.
                pass

    def on_forked(self) -> None:
        self.keeper.on_forked()


class AsyncHeld(_session.Handle):
    """A lock that is held, until `release` or the end of the `async with` block.

    An `AsyncHeld` that is collected without either releases its lock and warns (`ResourceWarning`). In a forked child it is lost: the
    lock stays with the process that took it.
    """

    def __init__(self, hold: _AsyncHold) -> None:
        super().__init__(hold)
        self._hold = hold
        self._when_forgotten(hold.on_forgotten)

    def is_lost(self) -> bool:
        """Whether the lock is held no more: it is lost, or may be lost because no node has confirmed it in time, or was released."""
        return self._hold.keeper.is_over()

    def safe_for(self) -> float:
        """Returns for how many seconds nobody else can have the lock, whatever happens; 0 if it is held no more."""
        return 0.0 if self.is_lost() else max(self._hold.session.left(), 0.0)

    async def lost(self) -> None:
        """Waits until the lock is held no more."""
        keeper = self._hold.keeper
        while not keeper.is_over():
            try:
                await asyncio.wait_for(keeper.over.wait(), max(keeper.session.left(), 0.0))
            except asyncio.TimeoutError:
                pass

    def release(self) -> "Awaitable[None]":
        """Releases the lock. Await the result to be sure that a node was told before the event loop ends."""
        return self._hold.release()


class AsyncClient:
    """A client of the nodes whose APIs have these addresses, for one event loop.

    It uses the nearest place that answers, and another one when that does not answer, is leaving, or cannot serve.
    """

    def __init__(
        self,
        places: Union[str, Iterable[str]],
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        token: Optional[str] = None,
        ttl: float = 10.0,
        retry_for: float = 30.0,
    ) -> None:
        self._places = Places(_wire.endpoints(places, ca, certificate, key, token))
        self._ttl, self._retry_for = ttl, retry_for

    @asynccontextmanager
    async def lock(
        self,
        name: str,
        *,
        blocking: bool = True,
        wait: Optional[float] = None,
        permits: Optional[int] = None,
        label: Optional[str] = None,
    ) -> AsyncIterator[AsyncHeld]:
        """Holds a lock, or one of `permits` permits, in an `async with` block."""
        held = await self.acquire(name, blocking=blocking, wait=wait, permits=permits, label=label)
        try:
            yield held
        finally:
            await held.release()

    async def acquire(
        self,
        name: str,
        *,
        blocking: bool = True,
        wait: Optional[float] = None,
        permits: Optional[int] = None,
        label: Optional[str] = None,
    ) -> AsyncHeld:
        """Waits for a lock. Cancelling the task withdraws the request.

        The lock is held until `release`, until it is lost, or until nothing refers to the `AsyncHeld` any more.
        """
        wanted = _wire.Wanted.of(name, blocking, wait, permits, label)
        attempts = _session.Attempts(wanted, self._retry_for)
        while True:
            keeper: Optional[_AsyncKeeper] = None
            try:
                keeper = _AsyncKeeper(self._places, await self._open(wanted.label))
                return AsyncHeld(_AsyncHold(keeper, await self._wait(keeper, wanted)))
            except BaseException as error:
                if keeper is not None:
                    # The request may have been granted, with an answer that was lost: the nodes are told.
                    keeper.end(Error("given_up", "the request was given up"))
                    telling = _in_background(keeper.delete())
                    if isinstance(error, Error):
                        await telling
                if not isinstance(error, Error):
                    raise
                pause = attempts.pause_after(error, keeper is not None and keeper.session.confirmed)
                await asyncio.sleep(pause)

    async def _wait(self, keeper: _AsyncKeeper, wanted: _wire.Wanted) -> _wire.Grant:
        """Waits for a lock in a session, and no longer than the session lasts."""
        line = _AsyncLine(self._places)
        keeper.waiting = asyncio.ensure_future(_drive(keeper.session.acquire(wanted), line))
        try:
            # If the session ends, the keeper cancels what is waited for here.
            await asyncio.wait({keeper.waiting})
            if keeper.session.why is not None:
                raise keeper.session.why
            return keeper.waiting.result()
        finally:
            keeper.waiting.cancel()
            keeper.waiting = None
            line.close()

    async def elect(self, election: str, candidate: str, *, wait: Optional[float] = None) -> AsyncHeld:
        """Waits until this program leads, under the name `candidate`. It leads until it releases or loses what is returned."""
        return await self.acquire(election, wait=wait, label=candidate)

    async def holders(self, name: str) -> List[Dict[str, Any]]:
        """Returns who holds a lock: `who`, `site` and `fence`. For an election this is who leads."""
        return _wire.holders(await self.queue(name))

    async def queue(self, name: str) -> Dict[str, Any]:
        """Returns who holds a lock, who waits for it, and why."""
        return await self._ask("GET", _wire.path(name))

    async def break_lock(self, name: str) -> Dict[str, Any]:
        """Takes a lock away from its holders."""
        return await self._ask("POST", _wire.path(name, "/break"))

    async def status(self) -> Dict[str, Any]:
        """Returns the status of the site."""
        return await self._ask("GET", "/v1/status")

    async def rules(self) -> Dict[str, Any]:
        """Returns the rules that say which algorithm each lock uses."""
        return await self._ask("GET", "/v1/rules")

    async def set_rules(self, rules: Dict[str, Any]) -> Dict[str, Any]:
        """Replaces the rules. This works while locks are held."""
        return await self._ask("PUT", "/v1/rules", rules)

    async def watch(self, name: str) -> AsyncIterator[Dict[str, Any]]:
        """Yields the holders of a lock, now and whenever they change. It ends with the connection."""
        line = _AsyncLine(self._places)
        try:
            place = await _drive(_session.nearest(self._places), line)
            answer = await line.send(Ask(place, "GET", _wire.path(name, "/watch"), None, None))
            if answer.status != 200:
                raise _error_of(answer, await answer.all())
            while True:
                text = await answer.line()
                if not text:
                    return
                yield _wire.read(text)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            raise Unreachable(f"the node has ended the connection: {error}") from error
        finally:
            line.close()

    async def _open(self, label: str) -> Session:
        """Opens a session at one of the places."""
        line = _AsyncLine(self._places)
        body = {"ttl_ms": round(self._ttl * 1000), "label": label}
        sent = _wire.now()
        try:
            place, said = await _drive(_session.ask_any(self._places, "POST", "/v1/sessions", body), line)
        finally:
            line.close()
        return Session(self._places, place, sent, said)

    async def _ask(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        line = _AsyncLine(self._places)
        try:
            said: Dict[str, Any] = (await _drive(_session.ask_any(self._places, method, path, body), line))[1]
            return said
        finally:
            line.close()
