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
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple, Union
from urllib.parse import quote, urlsplit

from ._errors import Error

if TYPE_CHECKING:
    from ._session import Holding

#: The largest answer that is read, in bytes.
MAX_ANSWER = 4 << 20

#: The clock that goes on while the machine is suspended, where there is one (Linux).
_BOOTTIME: Optional[int] = getattr(time, "CLOCK_BOOTTIME", None)

_started = (time.monotonic(), time.time())
_furthest = 0.0


def _since_start() -> float:
    """Returns the time since the start, by the monotonic or the wall clock, whichever has gone further. It never goes back.

    Monotonic clocks stand still on some systems while the machine is suspended.
    """
    global _furthest
    _furthest = max(_furthest, time.monotonic() - _started[0], time.time() - _started[1])
    return _furthest


def now() -> float:
    """Returns seconds since some fixed moment, including time in which the machine was suspended."""
    return _since_start() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


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

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def headers(self) -> Dict[str, str]:
        """Returns the headers of every request."""
        said = {"Content-Type": "application/json"}
        if self.token is not None:
            said["Authorization"] = f"Bearer {self.token}"
        return said


def endpoints(
    places: Union[str, Iterable[str]],
    ca: Optional[str],
    certificate: Optional[str],
    key: Optional[str],
    token: Optional[str],
) -> "Tuple[Endpoint, ...]":
    """Parses addresses such as `https://db-1:2379`, separated by commas if they are one text."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        raise ValueError("a token is printable ASCII without spaces; `meshlock token new NAME` makes one")
    texts = places.split(",") if isinstance(places, str) else list(places)
    texts = [text.strip() for text in texts if text.strip()]
    if not texts:
        raise ValueError("no address of a node's API is given, such as http://127.0.0.1:2379")
    tls: Optional[ssl.SSLContext] = None
    found = []
    for text in texts:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/")
        if wrong or parts.hostname is None or parts.username is not None or parts.query:
            raise ValueError(f"'{text}' is not the address of a node's API, such as http://127.0.0.1:2379")
        if parts.scheme == "https" and tls is None:
            tls = ssl.create_default_context(cafile=ca)
            if certificate is not None:
                tls.load_cert_chain(certificate, key)
        found.append(Endpoint(parts.hostname, parts.port or 2379, tls if parts.scheme == "https" else None, token))
    return tuple(found)


def path(lock: str, what: str = "") -> str:
    """Returns the path of a lock, or of an operation on it."""
    return f"/v1/locks/{quote(lock, safe='')}{what}"


@dataclass(frozen=True)
class Wanted:
    """What a caller wants."""

    lock: str
    is_try: bool
    #: When the caller's limit ends; `None` if it gave none.
    until: Optional[float]
    permits: Optional[int]
    label: str

    @staticmethod
    def of(lock: str, blocking: bool, wait: Optional[float], permits: Optional[int], label: Optional[str]) -> "Wanted":
        """Checks what a caller gives."""
        if not blocking and wait is not None:
            raise ValueError("give either blocking=False or wait, not both")
        if wait is not None and wait < 0:
            raise ValueError(f"wait is {wait}; give 0 or more seconds")
        return Wanted(lock, not blocking, None if wait is None else now() + wait, permits, label or "")

    def body(self, session: str) -> Dict[str, Any]:
        """Returns the body of the request."""
        asked: Dict[str, Any] = {"session": session}
        if self.is_try:
            asked["try"] = True
        if self.until is not None:
            asked["wait_ms"] = min(max(int((self.until - now()) * 1000), 0), 2**32 - 1)
        if self.permits is not None:
            asked["permits"] = self.permits
        return asked


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

    @staticmethod
    def of(lock: str, said: Any) -> "Grant":
        """Reads the answer to an acquisition."""
        fence = said.get("fence") if isinstance(said, dict) else None
        if not isinstance(fence, str) or not fence.isdecimal():
            raise Error("bad_answer", f"the node answered with {said} instead of a grant")
        slot = said.get("slot")
        return Grant(lock, int(fence), None if slot is None else int(slot))


def holders(queue: Dict[str, Any]) -> "List[Dict[str, Any]]":
    """Returns the holders of a lock, with their fences as numbers."""
    return [{**holder, "fence": int(holder.get("fence", 0))} for holder in queue.get("holders", [])]


#: Why a lock of the process that forked is not one of its child.
FORKED = "this process was forked from the one that holds the lock"

#: All held locks of this process.
held: "weakref.WeakSet[Holding]" = weakref.WeakSet()


def _after_fork() -> None:
    """Makes a forked child let go of its parent's locks, and leave their connections alone."""
    for holding in list(held):
        holding.on_forked()
    held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def warn_forgotten(lock: str) -> None:
    """Tells the programmer that a lock was neither released nor used in a `with` block."""
    why = f"the lock '{lock}' was never released; use a `with` block, or call release()"
    warnings.warn(why, ResourceWarning, stacklevel=2)


def retry_after(text: Optional[str]) -> float:
    """Reads the header of that name."""
    return float(text) if text is not None and text.isdecimal() else 0.0
