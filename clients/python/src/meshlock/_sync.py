"""The client for programs without asyncio."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from . import _errors, _wire
from ._errors import Unreachable

#: How long connecting may take, in seconds.
CONNECT_WITHIN = 10.0


class Held(_wire.Granted):
    """A lock that is held, until `release` or the end of the `with` block."""

    def __init__(self, grant: _wire.Grant, connection: http.client.HTTPConnection, lines: http.client.HTTPResponse) -> None:
        super().__init__(grant)
        self._connection = connection
        self._lines = lines
        self._lost = threading.Event()
        self._released = False
        self._heard = time.monotonic()
        threading.Thread(target=self._listen, name=f"meshlock {grant.lock}", daemon=True).start()

    def is_lost(self) -> bool:
        """Whether the lock is lost, or may be: nothing was heard of the node for too long."""
        return self._lost.is_set() or time.monotonic() - self._heard >= _wire.SILENCE

    def wait_until_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost; false if it is not within `timeout` seconds."""
        return self._lost.wait(timeout)

    def release(self) -> None:
        """Gives the lock back."""
        self._released = True
        # Whoever listens closes it then.
        _shut(self._connection)

    def _listen(self) -> None:
        why = "the connection to the node has ended"
        try:
            # The node says twice as often that all is well.
            if self._connection.sock is not None:
                self._connection.sock.settimeout(_wire.SILENCE)
            while True:
                line = self._lines.readline()
                if not line:
                    break
                self._heard = time.monotonic()
                said = _wire.read(line)
                if "lost" in said:
                    why = str(said["lost"].get("why", why))
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
        connection, response = self._send("POST", _wire.path(name, "/hold"), asked, None)
        try:
            line = response.readline()
            if not line:
                raise Unreachable("the node has ended the connection before it granted anything; look at its log")
            return Held(_wire.Grant.of(_wire.read(line)), connection, response)
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
        connection, response = self._send(method, path, body, CONNECT_WITHIN)
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
            connection = http.client.HTTPConnection(place.host, place.port, timeout=CONNECT_WITHIN)
        else:
            connection = http.client.HTTPSConnection(place.host, place.port, timeout=CONNECT_WITHIN, context=place.tls)
        try:
            connection.connect()
            connection.sock.settimeout(within)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, place.headers())
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            _close(connection)
            raise Unreachable(f"no node answers at {place.host}:{place.port}: {error}") from error
        if response.status != 200:
            said = response.read()
            _close(connection)
            try:
                raise _errors.of(response.status, _wire.read(said))
            except ValueError:
                raise _errors.of(response.status, None) from None
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
