"""The client for programs without asyncio."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from . import _errors, _wire
from ._errors import Unreachable
from ._wire import WITHIN

class _Hold(_wire.Granted):
    """A granted lock, and the thread that keeps it."""

    def __init__(
        self,
        grant: _wire.Grant,
        client: "Client",
        connection: http.client.HTTPConnection,
        lines: http.client.HTTPResponse,
    ) -> None:
        super().__init__(grant)
        self._client = client
        self._connection = connection
        self._lines = lines
        self._lost = threading.Event()
        self._released = False
        self._ask()
        if connection.sock is not None:
            # The node confirms the lock several times within this period.
            connection.sock.settimeout(max(self._safe_until - _wire.now(), 1.0))
        threading.Thread(target=self._listen, name=f"meshlock {grant.lock}", daemon=True).start()

    def is_lost(self) -> bool:
        if self._is_too_late():
            self._lost.set()
        return self._lost.is_set()

    def release(self) -> None:
        self._released = True
        if not self._lost.is_set():
            try:
                # The node must assume that a connection that just ends was cut, and would free the lock later.
                self._client._ask("DELETE", f"/v1/sessions/{self._grant.session}")
            except _errors.Error:
                pass
        # The listening thread closes the connection then.
        _shut(self._connection)

    def _on_forgotten(self) -> None:
        """Releases a lock that the program has lost track of, on another thread: this may be called at any moment."""
        if not self._released:
            _wire.warn_forgotten(self._grant.lock)
            try:
                threading.Thread(target=self.release, daemon=True).start()
            except RuntimeError:
                # The interpreter ends, and the connection with it.
                pass

    def _on_forked(self) -> None:
        # The thread that listens does not exist in this process, and a lock of its may never be released: everything is new.
        self._lost = threading.Event()
        self._lost.set()
        self._released = True
        self._why = _wire.FORKED
        if self._connection.sock is not None:
            _wire.let_go(self._connection.sock)

    def _ask(self) -> None:
        asked = _wire.now()
        self._extend(asked, self._client._ask("POST", self._keep_alive()))

    def _listen(self) -> None:
        why = "the connection to the node has ended"
        try:
            while True:
                line = self._lines.readline()
                if not line:
                    break
                said = _wire.read(line)
                if "lost" in said:
                    why = str(said["lost"].get("why", why))
                    break
                self._ask()
                if self.is_lost():
                    why = "this program was stopped for longer than the lock was safe"
                    break
        except (OSError, ValueError, http.client.HTTPException, _errors.Error) as error:
            why = f"{why}: {error}"
        if not self._released:
            self._why = why
        self._lost.set()
        self._lines.close()
        _close(self._connection)


class Held(_wire.Handle):
    """A lock that is held, until `release` or the end of the `with` block.

    A `Held` that is collected without either releases its lock and warns (`ResourceWarning`). In a forked child it is lost: the lock stays
    with the process that took it.
    """

    def __init__(self, hold: _Hold) -> None:
        super().__init__(hold)
        self._hold = hold
        weakref.finalize(self, hold._on_forgotten).atexit = False

    def is_lost(self) -> bool:
        """Whether the lock is lost, or may be lost because the node has not confirmed it for too long."""
        return self._hold.is_lost()

    def wait_until_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost. Returns `False` if it is not lost within `timeout` seconds."""
        hold = self._hold
        until = None if timeout is None else _wire.now() + timeout
        while not hold.is_lost():
            left = hold._safe_until - _wire.now()
            if until is not None:
                left = min(left, until - _wire.now())
                if left <= 0:
                    return hold.is_lost()
            hold._lost.wait(max(left, 0.0))
        return True

    def release(self) -> None:
        """Releases the lock."""
        self._hold.release()


class Client:
    """A client of a node's API. Threads may share one client."""

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

    @contextmanager
    def lock(
        self,
        name: str,
        *,
        blocking: bool = True,
        wait: Optional[float] = None,
        permits: Optional[int] = None,
        label: Optional[str] = None,
    ) -> Iterator[Held]:
        """Holds a lock, or one of `permits` permits, in a `with` block."""
        held = self.acquire(name, blocking=blocking, wait=wait, permits=permits, label=label)
        try:
            yield held
        finally:
            held.release()

    def acquire(
        self,
        name: str,
        *,
        blocking: bool = True,
        wait: Optional[float] = None,
        permits: Optional[int] = None,
        label: Optional[str] = None,
    ) -> Held:
        """Waits for a lock. It is held until `release`, the end of this process, or until nothing refers to the `Held` any more."""
        asked = _wire.acquire_body(blocking, wait, permits, label)
        within = _wire.answered_within(blocking, wait)
        connection, response = self._send("POST", _wire.path(name, "/hold"), asked, within)
        try:
            line = response.readline()
            if not line:
                raise Unreachable("the node ended the connection before it granted the lock; look at its log")
            return Held(_Hold(_wire.Grant.of(_wire.read(line)), self, connection, response))
        except OSError as error:
            _close(connection)
            raise Unreachable(f"the node has not answered: {error}") from error
        except BaseException:
            _close(connection)
            raise

    def queue(self, name: str) -> Dict[str, Any]:
        """Returns who holds a lock, who waits for it, and why."""
        return self._ask("GET", _wire.path(name))

    def break_lock(self, name: str) -> Dict[str, Any]:
        """Takes a lock away from its holders."""
        return self._ask("POST", _wire.path(name, "/break"))

    def status(self) -> Dict[str, Any]:
        """Returns the status of the site."""
        return self._ask("GET", "/v1/status")

    def rules(self) -> Dict[str, Any]:
        """Returns the rules that say which algorithm each lock uses."""
        return self._ask("GET", "/v1/rules")

    def set_rules(self, rules: Dict[str, Any]) -> Dict[str, Any]:
        """Replaces the rules. This works while locks are held."""
        return self._ask("PUT", "/v1/rules", rules)

    def watch(self, name: str) -> Iterator[Dict[str, Any]]:
        """Yields the holders of a lock, now and whenever they change."""
        connection, response = self._send("GET", _wire.path(name, "/watch"), None, None)
        try:
            while True:
                line = response.readline()
                if not line:
                    return
                yield _wire.read(line)
        finally:
            _close(connection)

    def _ask(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        connection, response = self._send(method, path, body, WITHIN)
        try:
            answer: Dict[str, Any] = _wire.read(response.read())
            return answer
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the node's answer was cut off: {error}") from error
        finally:
            _close(connection)

    def _send(
        self, method: str, path: str, body: Optional[Dict[str, Any]], within: Optional[float]
    ) -> "tuple[http.client.HTTPConnection, http.client.HTTPResponse]":
        """Sends a request. Returns the answer without its body, or raises the error that it contains."""
        endpoint = self._endpoint
        if endpoint.tls is None:
            connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=WITHIN)
        else:
            connection = http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=WITHIN, context=endpoint.tls)
        try:
            connection.connect()
            connection.sock.settimeout(within)
            _wire.enable_keep_alive(connection.sock)
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, endpoint.headers())
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            _close(connection)
            raise Unreachable(f"no node answers at {endpoint.host}:{endpoint.port}: {error}") from error
        if response.status != 200:
            said = response.read()
            _close(connection)
            raise _errors.of(response.status, _wire.read(said))
        return connection, response


def _shut(connection: http.client.HTTPConnection) -> None:
    """Shuts a connection down for both sides, even while another thread reads from it."""
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other side closed it first.
            pass


def _close(connection: http.client.HTTPConnection) -> None:
    _shut(connection)
    connection.close()
