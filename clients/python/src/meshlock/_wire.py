"""What both clients share: where the node is, and how its answers are read."""

from __future__ import annotations

import json
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional
from urllib.parse import quote, urlsplit

from ._errors import Error

#: How long connecting, or a short answer, may take, in seconds.
WITHIN = 10.0

#: A clock that goes on while the machine sleeps, where there is one: others' clocks do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since some moment, sleep included."""
    return time.clock_gettime(_CLOCK)


def watch_over(sock: socket.socket) -> None:
    """Lets the system end a connection whose other end is gone without a word."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


@dataclass(frozen=True)
class Place:
    """Where a node serves its API."""

    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    token: Optional[str] = field(default=None, repr=False)

    def headers(self) -> Dict[str, str]:
        """What every request says beside what it asks for."""
        said = {"Content-Type": "application/json"}
        if self.token is not None:
            said["Authorization"] = f"Bearer {self.token}"
        return said


def place(
    url: str, ca: Optional[str], certificate: Optional[str], key: Optional[str], token: Optional[str]
) -> Place:
    """Reads an address such as `https://db-1:2379`."""
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
    return Place(parts.hostname, parts.port or 2379, tls, token)


def path(lock: str, what: str = "") -> str:
    """The path of a lock, or of something about it."""
    return f"/v1/locks/{quote(lock, safe='')}{what}"


def wish(blocking: bool, wait: Optional[float], permits: Optional[int], label: Optional[str]) -> Dict[str, Any]:
    """What is asked for with a lock."""
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
    """For how long a node that is there may say nothing to a wish."""
    if not blocking:
        return WITHIN
    return None if wait is None else wait + WITHIN


def read(text: bytes) -> Any:
    """The document in an answer."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise Error("not_understood", f"the node says what is no JSON; is it a node? {error}") from error


@dataclass(frozen=True)
class Grant:
    """What was granted."""

    lock: str
    fence: int
    slot: Optional[int]
    session: str

    @staticmethod
    def of(said: Dict[str, Any]) -> "Grant":
        """From the first line of what a holder is told."""
        granted = said.get("granted")
        if not isinstance(granted, dict):
            raise Error("not_understood", f"a grant was expected, and the node says {said}")
        slot = granted.get("slot")
        slot = None if slot is None else int(slot)
        return Grant(granted.get("lock", ""), int(granted.get("fence", 0)), slot, str(granted.get("session", "")))


class Granted:
    """What whoever holds a lock can ask, with asyncio or without.

    The node says for how long nobody else can have the lock, whatever happens. That is counted from when it was *asked*: an
    answer may lie in a buffer for as long as this process was stopped.
    """

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._why: Optional[str] = None
        self._safe_until = now()

    def _is_too_late(self) -> bool:
        return now() >= self._safe_until

    def _extend(self, asked: float, session: Dict[str, Any]) -> None:
        """What the node has said of the session, when it was asked then. What is over stays over."""
        if self._grant.lock not in session.get("locks", []):
            raise Error("lost", "the session does not hold the lock any more")
        self._safe_until = max(self._safe_until, asked + int(session.get("safe_ms", 0)) / 1000)

    def _keep_alive(self) -> str:
        return f"/v1/sessions/{self._grant.session}/keep-alive"

    @property
    def name(self) -> str:
        """The lock."""
        return self._grant.lock

    @property
    def fence(self) -> int:
        """Larger than that of every earlier holder: hand it to whatever the lock protects."""
        return self._grant.fence

    @property
    def slot(self) -> Optional[int]:
        """Which of the permits, where they are numbered."""
        return self._grant.slot

    @property
    def why_lost(self) -> Optional[str]:
        """Why it was lost, once it is."""
        return self._why
