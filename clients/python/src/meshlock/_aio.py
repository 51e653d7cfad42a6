"""The client for asyncio."""

from __future__ import annotations

import asyncio
import json
import weakref
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Dict, Optional

from . import _errors, _wire
from ._errors import Unreachable
from ._wire import WITHIN

class _Answer:
    """An answer that is read as it arrives: HTTP/1.1 with a length or in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.status = 0
        self._left: Optional[int] = None
        self._chunked = False
        self._buffer = b""

    async def head(self) -> None:
        """Reads the status line and the headers."""
        line = await self._reader.readline()
        parts = line.split()
        if len(parts) < 2 or not parts[1].isdigit():
            raise Unreachable("the node ended the connection before it answered; look at its log")
        self.status = int(parts[1])
        while True:
            name, _, value = (await self._reader.readline()).decode("latin-1").partition(":")
            if not value:
                return
            if name.lower() == "content-length":
                self._left = int(value)
            if name.lower() == "transfer-encoding":
                self._chunked = "chunked" in value.lower()

    async def some(self) -> bytes:
        """Returns the next part of the body; empty at its end."""
        if self._chunked:
            size = int((await self._reader.readline()).split(b";")[0] or b"0", 16)
            chunk = await self._reader.readexactly(size)
            await self._reader.readline()
            return chunk
        if self._left == 0:
            return b""
        part = await self._reader.read(65536 if self._left is None else self._left)
        if self._left is not None:
            self._left -= len(part)
        return part

    async def line(self) -> bytes:
        """Returns the next line of the body; empty at its end."""
        while b"\n" not in self._buffer:
            more = await self.some()
            if not more:
                return b""
            self._buffer += more
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

    def socket(self) -> Any:
        """Returns the connection's socket."""
        return self._writer.get_extra_info("socket")

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()


class _AsyncHold(_wire.Granted):
    """A granted lock, and the task that keeps it."""

    def __init__(self, grant: _wire.Grant, client: "AsyncClient", answer: _Answer) -> None:
        super().__init__(grant)
        self._client = client
        self._answer = answer
        self._lost = asyncio.Event()
        self._task: "Optional[asyncio.Task[None]]" = None
        self._loop = asyncio.get_running_loop()
        self._released = False

    async def _begin(self) -> "_AsyncHold":
        await self._ask()
        self._task = asyncio.ensure_future(self._listen())
        return self

    def is_lost(self) -> bool:
        if self._is_too_late():
            self._lost.set()
        return self._lost.is_set()

    def release(self) -> None:
        self._released = True
        if self._task is not None:
            self._task.cancel()
        self._answer.close()

    def _on_forgotten(self) -> None:
        """Releases a lock that the program has lost track of, in its event loop: this may be called at any moment."""
        if not self._released:
            _wire.warn_forgotten(self._grant.lock)
            try:
                self._loop.call_soon_threadsafe(self.release)
            except RuntimeError:
                # The loop has ended, and its connections with it.
                pass

    def _on_forked(self) -> None:
        self._lost = asyncio.Event()
        self._lost.set()
        self._released = True
        self._why = _wire.FORKED
        _wire.let_go(self._answer.socket())

    async def _ask(self) -> None:
        asked = _wire.now()
        self._extend(asked, await self._client._ask("POST", self._keep_alive()))

    async def _listen(self) -> None:
        why = "the connection to the node has ended"
        try:
            while True:
                # The node confirms the lock several times within this period.
                line = await asyncio.wait_for(self._answer.line(), max(self._safe_until - _wire.now(), 0.0))
                if not line:
                    break
                said = _wire.read(line)
                if "lost" in said:
                    why = str(said["lost"].get("why", why))
                    break
                await self._ask()
                if self.is_lost():
                    why = "this program was busy or stopped for longer than the lock was safe"
                    break
        except (OSError, ValueError, EOFError, asyncio.TimeoutError, _errors.Error) as error:
            why = f"{why}: {error}"
        finally:
            if not self._released:
                self._why = why
            self._lost.set()
            self._answer.close()


class AsyncHeld(_wire.Handle):
    """A lock that is held, until `release` or the end of the `async with` block.

    An `AsyncHeld` that is collected without either releases its lock and warns (`ResourceWarning`). In a forked child it is lost: the
    lock stays with the process that took it.
    """

    def __init__(self, hold: _AsyncHold) -> None:
        super().__init__(hold)
        self._hold = hold
        weakref.finalize(self, hold._on_forgotten).atexit = False

    def is_lost(self) -> bool:
        """Whether the lock is lost, or may be lost because the node has not confirmed it for too long."""
        return self._hold.is_lost()

    async def lost(self) -> None:
        """Waits until the lock is lost, or may be lost."""
        hold = self._hold
        while not hold.is_lost():
            try:
                await asyncio.wait_for(hold._lost.wait(), max(hold._safe_until - _wire.now(), 0.0))
            except asyncio.TimeoutError:
                pass

    def release(self) -> None:
        """Releases the lock."""
        self._hold.release()


class AsyncClient:
    """A client of a node's API."""

    def __init__(
        self,
        url: str,
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        token: Optional[str] = None,
    ) -> None:
        self._endpoint = _wire.endpoint(url, ca, certificate, key, token)

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
            held.release()

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

        The lock is held until `release`, the end of this process, or until nothing refers to the `AsyncHeld` any more.
        """
        asked = _wire.acquire_body(blocking, wait, permits, label)
        within = _wire.answered_within(blocking, wait)
        try:
            answer = await asyncio.wait_for(self._send("POST", _wire.path(name, "/hold"), asked), within)
        except asyncio.TimeoutError as error:
            raise Unreachable("the node has not answered, though it should have by now") from error
        try:
            line = await asyncio.wait_for(answer.line(), WITHIN)
            if not line:
                raise Unreachable("the node ended the connection before it granted the lock; look at its log")
            return AsyncHeld(await _AsyncHold(_wire.Grant.of(_wire.read(line)), self, answer)._begin())
        except BaseException:
            answer.close()
            raise

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
        """Yields the holders of a lock, now and whenever they change."""
        answer = await self._send("GET", _wire.path(name, "/watch"), None)
        try:
            while True:
                line = await answer.line()
                if not line:
                    return
                yield _wire.read(line)
        finally:
            answer.close()

    async def _ask(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        answer = await asyncio.wait_for(self._send(method, path, body), WITHIN)
        try:
            said: Dict[str, Any] = _wire.read(await asyncio.wait_for(answer.all(), WITHIN))
            return said
        finally:
            answer.close()

    async def _send(self, method: str, path: str, body: Optional[Dict[str, Any]]) -> _Answer:
        """Sends a request. Returns the answer without its body, or raises the error that it contains."""
        endpoint = self._endpoint
        where = f"{endpoint.host}:{endpoint.port}"
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(endpoint.host, endpoint.port, ssl=endpoint.tls), WITHIN
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise Unreachable(f"no node answers at {where}: {error}") from error
        answer = _Answer(reader, writer)
        sock = writer.get_extra_info("socket")
        try:
            if sock is not None:
                _wire.enable_keep_alive(sock)
            content = b"" if body is None else json.dumps(body).encode()
            headers = {"Host": where, **endpoint.headers(), "Content-Length": str(len(content))}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"{method} {path} HTTP/1.1\r\n{lines}\r\n"
            writer.write(head.encode() + content)
            await writer.drain()
            await answer.head()
            if answer.status != 200:
                raise _errors.of(answer.status, _wire.read(await answer.all()))
            return answer
        except (OSError, EOFError) as error:
            answer.close()
            raise Unreachable(f"the node at {where} has ended the connection: {error}") from error
        except BaseException:
            answer.close()
            raise
