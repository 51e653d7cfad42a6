"""The client for programs without asyncio."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from . import _errors, _wire
from ._errors import Unreachable
from ._wire import WITHIN

class Held(_wire.Granted):
    """A lock that is held, until `release` or the end of the `with` block."""

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
            # The node says a few times in that time that all is well.
            connection.sock.settimeout(max(self._safe_until - _wire.now(), 1.0))
        threading.Thread(target=self._listen, name=f"meshlock {grant.lock}", daemon=True).start()

    def is_lost(self) -> bool:
        """Whether the lock is lost, or may be: for too long the node has not said that it is safe."""
        if self._is_too_late():
            self._lost.set()
        return self._lost.is_set()

    def wait_until_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost; false if it is not within `timeout` seconds."""
        until = None if timeout is None else _wire.now() + timeout
        while not self.is_lost():
            left = self._safe_until - _wire.now()
            if until is not None:
                left = min(left, until - _wire.now())
                if left <= 0:
                    return self.is_lost()
            self._lost.wait(max(left, 0.0))
        return True

    def release(self) -> None:
        """Gives the lock back."""
        self._released = True
        if not self._lost.is_set():
            try:
                # A connection that only ends may have been cut: then the lock would be free a little later.
                self._client._ask("DELETE", f"/v1/sessions/{self._grant.session}")
            except _errors.Error:
                pass
        # Whoever listens closes it then.
        _shut(self._connection)

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


class Client:
    """A node's API. Threads may share one client."""

    def __init__(
        self,
        url: str,
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        token: Optional[str] = None,
    ) -> None:
        self._place = _wire.place(url, ca, certificate, key, token)

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
        """Holds a lock, or one of so many permits, in a `with` block."""
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
        """Waits for a lock. Give it back with `release`; it goes with this process at the latest."""
        asked = _wire.wish(blocking, wait, permits, label)
        within = _wire.answered_within(blocking, wait)
        connection, response = self._send("POST", _wire.path(name, "/hold"), asked, within)
        try:
            line = response.readline()
            if not line:
                raise Unreachable("the node has ended the connection before it granted anything; look at its log")
            return Held(_wire.Grant.of(_wire.read(line)), self, connection, response)
        except OSError as error:
            _close(connection)
            raise Unreachable(f"the node has not answered: {error}") from error
        except BaseException:
            _close(connection)
            raise

    def queue(self, name: str) -> Dict[str, Any]:
        """Who holds a lock, who waits for it, and why."""
        return self._ask("GET", _wire.path(name))

    def break_lock(self, name: str) -> Dict[str, Any]:
        """Takes a lock away from whoever holds it."""
        return self._ask("POST", _wire.path(name, "/break"))

    def status(self) -> Dict[str, Any]:
        """How the site is."""
        return self._ask("GET", "/v1/status")

    def rules(self) -> Dict[str, Any]:
        """What the cluster's locks run."""
        return self._ask("GET", "/v1/rules")

    def set_rules(self, rules: Dict[str, Any]) -> Dict[str, Any]:
        """Changes what they run, while they are held."""
        return self._ask("PUT", "/v1/rules", rules)

    def watch(self, name: str) -> Iterator[Dict[str, Any]]:
        """Who holds a lock, now and whenever that changes."""
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
            raise Unreachable(f"the node's answer has broken off: {error}") from error
        finally:
            _close(connection)

    def _send(
        self, method: str, path: str, body: Optional[Dict[str, Any]], within: Optional[float]
    ) -> "tuple[http.client.HTTPConnection, http.client.HTTPResponse]":
        """Sends a request; gives back the answer's head, or raises what it says is wrong."""
        place = self._place
        if place.tls is None:
            connection = http.client.HTTPConnection(place.host, place.port, timeout=WITHIN)
        else:
            connection = http.client.HTTPSConnection(place.host, place.port, timeout=WITHIN, context=place.tls)
        try:
            connection.connect()
            connection.sock.settimeout(within)
            _wire.watch_over(connection.sock)
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, place.headers())
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            _close(connection)
            raise Unreachable(f"no node answers at {place.host}:{place.port}: {error}") from error
        if response.status != 200:
            said = response.read()
            _close(connection)
            raise _errors.of(response.status, _wire.read(said))
        return connection, response


def _shut(connection: http.client.HTTPConnection) -> None:
    """Ends a connection for both sides, also while another thread reads from it."""
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other side was first.
            pass


def _close(connection: http.client.HTTPConnection) -> None:
    _shut(connection)
    connection.close()
