"""Code that both clients share: the address of the node, and how its answers are read."""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, Optional
from urllib.parse import quote, urlsplit

from ._errors import Error

#: Timeout in seconds for connecting, or for a short answer.
WITHIN = 10.0

#: A clock that goes on while the machine is suspended, where there is one: the clocks of other machines go on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Returns seconds since some fixed moment, including time in which the machine was suspended."""
    return time.clock_gettime(_CLOCK)


def enable_keep_alive(sock: socket.socket) -> None:
    """Lets the system end a connection whose other end is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


@dataclass(frozen=True)
class Endpoint:
    """The address of a node's API."""

    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    token: Optional[str] = field(default=None, repr=False)

    def headers(self) -> Dict[str, str]:
        """Returns the headers of every request."""
        said = {"Content-Type": "application/json"}
        if self.token is not None:
            said["Authorization"] = f"Bearer {self.token}"
        return said


def endpoint(
    url: str, ca: Optional[str], certificate: Optional[str], key: Optional[str], token: Optional[str]
) -> Endpoint:
    """Parses an address such as `https://db-1:2379`."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("a token is printable ASCII without spaces; `meshlock token new NAME` makes one")
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or parts.hostname is None or parts.path not in ("", "/"):
        raise ValueError(f"'{url}' is not the address of a node's API, such as http://127.0.0.1:2379")
    tls = None
    if parts.scheme == "https":
        tls = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            tls.load_cert_chain(certificate, key)
    return Endpoint(parts.hostname, parts.port or 2379, tls, token)


def let_go(sock: Any) -> None:
    """Closes this process's copy of a connection that another process goes on using: nothing is sent, and its number stays taken."""
    try:
        number = sock.fileno()
        if number >= 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, number, inheritable=False)
            os.close(nothing)
    except OSError:
        # It is closed already.
        pass


def path(lock: str, what: str = "") -> str:
    """Returns the path of a lock, or of an operation on it."""
    return f"/v1/locks/{quote(lock, safe='')}{what}"


def acquire_body(blocking: bool, wait: Optional[float], permits: Optional[int], label: Optional[str]) -> Dict[str, Any]:
    """Returns the body of an acquisition."""
    if not blocking and wait is not None:
        raise ValueError("give either blocking=False or wait, not both")
    if wait is not None and wait < 0:
        raise ValueError(f"wait is {wait}; give 0 or more seconds")
    asked: Dict[str, Any] = {}
    if not blocking:
        asked["try"] = True
    if wait is not None:
        asked["wait_ms"] = min(int(wait * 1000), 2**32 - 1)
    if permits is not None:
        asked["permits"] = permits
    if label is not None:
        asked["label"] = label
    return asked


def answered_within(blocking: bool, wait: Optional[float]) -> Optional[float]:
    """Returns how long a reachable node may take to answer an acquisition; `None` means forever."""
    if not blocking:
        return WITHIN
    return None if wait is None else wait + WITHIN


def read(text: bytes) -> Any:
    """Parses the JSON of an answer."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise Error("not_understood", f"the answer is not JSON; check that the address is that of a node: {error}") from error


@dataclass(frozen=True)
class Grant:
    """A grant of a lock."""

    lock: str
    fence: int
    slot: Optional[int]
    session: str

    @staticmethod
    def of(said: Dict[str, Any]) -> "Grant":
        """Reads the first line of the answer to an acquisition."""
        granted = said.get("granted")
        if not isinstance(granted, dict):
            raise Error("not_understood", f"the node answered with {said} instead of a grant")
        slot = granted.get("slot")
        slot = None if slot is None else int(slot)
        return Grant(granted.get("lock", ""), int(granted.get("fence", 0)), slot, str(granted.get("session", "")))


#: Why a lock of the process that forked is not one of its child.
FORKED = "this process was forked from the one that holds the lock"

#: All held locks of this process.
_held: "weakref.WeakSet[Granted]" = weakref.WeakSet()


def _after_fork() -> None:
    """Makes a forked child let go of its parent's locks: otherwise they would be held until the child ends, too."""
    for granted in list(_held):
        granted._on_forked()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def warn_forgotten(lock: str) -> None:
    """Tells the programmer that a lock was neither released nor used in a `with` block."""
    why = f"the lock '{lock}' was never released; use a `with` block, or call release()"
    warnings.warn(why, ResourceWarning, stacklevel=2)


class Granted:
    """A granted lock; the part that both clients share.

    The node says for how long nobody else can have the lock, whatever happens. This time is counted from when the request
    was *sent*: the answer may have waited in a buffer while this process was paused.
    """

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._why: Optional[str] = None
        self._safe_until = now()
        _held.add(self)

    def _on_forked(self) -> None:
        """Lets go of the lock in a child process that was forked."""
        raise NotImplementedError

    def _is_too_late(self) -> bool:
        return now() >= self._safe_until

    def _extend(self, asked: float, session: Dict[str, Any]) -> None:
        """Extends the safe time by the answer to a keep-alive that was sent at `asked`. A lost lock stays lost."""
        if self._grant.lock not in session.get("locks", []):
            raise Error("lost", "the session does not hold the lock any more")
        self._safe_until = max(self._safe_until, asked + int(session.get("safe_ms", 0)) / 1000)

    def _keep_alive(self) -> str:
        return f"/v1/sessions/{self._grant.session}/keep-alive"


class Handle:
    """What a program has of a granted lock. When it is collected, the lock is released; nothing else refers to it."""

    def __init__(self, granted: Granted) -> None:
        self._granted = granted

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._granted._grant.lock

    @property
    def fence(self) -> int:
        """The fence: larger than that of every earlier holder. Pass it to whatever the lock protects."""
        return self._granted._grant.fence

    @property
    def slot(self) -> Optional[int]:
        """The number of the permit, where permits are numbered."""
        return self._granted._grant.slot

    @property
    def why_lost(self) -> Optional[str]:
        """Why the lock was lost; `None` while it is held."""
        return self._granted._why
