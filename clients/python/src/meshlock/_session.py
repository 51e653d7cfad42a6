"""What both clients do with sessions. It decides and does no I/O: its generators yield what is to be done, and are sent the answers."""

from __future__ import annotations

import random
import weakref
from dataclasses import dataclass
from typing import Any, Dict, Generator, Optional, Sequence, Tuple, TypeVar, Union

from . import _errors, _wire
from ._errors import Error, Lost

#: How long a connection may take to open, in seconds.
CONNECT_WITHIN = 2.0

#: How long a short answer may take, in seconds.
ANSWER_WITHIN = 5.0

#: Keeps a node that promises almost nothing from being asked without a pause, in seconds.
_SHORTEST_PERIOD = 0.02

_STOPPED = "this program was busy or stopped for longer than the lock was safe"


@dataclass(frozen=True)
class Ask:
    """Send a request to a place, and go on with its answer or its `Error`."""

    place: int
    method: str
    path: str
    body: Optional[Dict[str, Any]] = None
    #: Time limit in seconds; `None` means until the session is over.
    within: Optional[float] = ANSWER_WITHIN


@dataclass(frozen=True)
class AskAll:
    """Ask all places at once which is the nearest, unless that is known, and go on when the order of the places is."""


@dataclass(frozen=True)
class Sleep:
    """Wait for this many seconds, or until the session is over."""

    seconds: float


Result = TypeVar("Result")
#: Something that is done in steps. It is sent the answer of every `Ask`, or its error is raised in it.
Steps = Generator[Union[Ask, AskAll, Sleep], Any, Result]


def backoff(failures: int, limit: float) -> float:
    """Returns how long to wait after this many failures in a row.

    The time is longer after each failure, up to a limit, and random, so that clients do not come back all at once.
    """
    longest: float = min(0.025 * (1 << min(failures, 10)), limit)
    return longest * random.uniform(0.5, 1.0)


class Places:
    """The addresses of the nodes' APIs. All sessions of a client share them."""

    def __init__(self, endpoints: "Tuple[_wire.Endpoint, ...]") -> None:
        self.endpoints = endpoints
        #: The indices of the places in the order in which they are tried.
        self.order: Sequence[int] = range(len(endpoints))
        #: Whether the order was asked for since the first place of it has failed. A single place is not asked.
        self.is_known = len(endpoints) == 1

    def prefer(self, order: Sequence[int]) -> None:
        """Notes the order in which the places are tried from now on."""
        self.order, self.is_known = order, True

    def failed(self, place: int, error: Error) -> None:
        """Notes that a place could not serve. If it was preferred, all are asked anew before the next request that any of them may answer."""
        if self.order[0] == place and _errors.may_work_elsewhere(error) and len(self.endpoints) > 1:
            self.is_known = False

    def after(self, place: int) -> int:
        """Returns the place that is tried after this one."""
        order = self.order
        return order[(order.index(place) + 1) % len(order)]


def nearest(places: Places) -> "Steps[int]":
    """Returns the place that is preferred, and asks all of them if that is not known."""
    if not places.is_known:
        yield AskAll()
    return places.order[0]


def ask_any(places: Places, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> "Steps[Tuple[int, Any]]":
    """Asks every place once, the nearest first, until one can answer. Returns which did, and the answer."""
    place = yield from nearest(places)
    return (yield from _ask_from(places, place, method, path, body))


def _ask_from(
    places: Places, place: int, method: str, path: str, body: Optional[Dict[str, Any]] = None
) -> "Steps[Tuple[int, Any]]":
    for left in reversed(range(len(places.endpoints))):
        try:
            return place, (yield Ask(place, method, path, body))
        except Error as error:
            if left == 0 or not _errors.may_work_elsewhere(error):
                raise
            places.failed(place, error)
        place = places.after(place)
    raise AssertionError("there is a place")


class Session:
    """What the nodes know of one lock of this client. The clients keep it alive from its opening to its end."""

    def __init__(self, places: Places, place: int, sent: float, said: Dict[str, Any]) -> None:
        self.places = places
        self.id = str(said.get("session", ""))
        #: Where the session was confirmed last.
        self.place = place
        #: The name of the lock once it is granted.
        self.lock: Optional[str] = None
        #: Whether a node has confirmed the session after its opening.
        self.confirmed = False
        #: Why the session is over; `None` while it is not.
        self.why: Optional[Error] = None
        self._safe_until = 0.0
        self._alive_until = 0.0
        self._period = _SHORTEST_PERIOD
        self._count(sent, said)

    def left(self) -> float:
        """Returns for how many seconds the session is still good."""
        return (self._alive_until if self.lock is None else self._safe_until) - _wire.now()

    def path(self, what: str = "") -> str:
        """Returns the path of the session, or of an operation on it."""
        return f"/v1/sessions/{self.id}{what}"

    def pause(self) -> float:
        """Returns how long to wait until the session is to be confirmed again."""
        return max(min(self._period, self.left()), 0.0)

    def _count(self, sent: float, said: Dict[str, Any]) -> None:
        """Extends the times by an answer to a request that was *sent* then: the answer may have waited while this process was paused."""
        safe, left = int(said.get("safe_ms", 0)) / 1000, int(said.get("left_ms", 0)) / 1000
        self._safe_until = max(self._safe_until, sent + safe)
        self._alive_until = max(self._alive_until, sent + left)
        self._period = max((min(safe, left) if safe > 0 else left) / 4, _SHORTEST_PERIOD)

    def confirm(self) -> "Steps[Optional[Lost]]":
        """Renews the session at its place, or at another one if that fails, until its time is over. Returns why the session is lost."""
        why, failures, count = _STOPPED, 0, len(self.places.endpoints)
        while self.why is None:
            if failures and failures % count == 0:
                yield Sleep(max(min(backoff(failures // count, self._period), self.left()), 0.0))
            left, place = self.left(), self.place
            if left <= 0:
                return Lost(why)
            # An answer to a question from before the grant need not know the lock.
            sent, lock = _wire.now(), self.lock
            try:
                said = yield Ask(place, "POST", self.path("/keep-alive"), within=min(self._period, left))
                self._on_confirmed(sent, lock, said)
                return None
            except Error as error:
                if not _errors.may_work_elsewhere(error):
                    return error if isinstance(error, Lost) else Lost(str(error))
                why = f"no node has confirmed the lock in time: {error}"
                failures += 1
                if self.why is None:
                    self.places.failed(place, error)
                self.place = self.places.after(place)
        return None

    def _on_confirmed(self, sent: float, lock: Optional[str], said: Dict[str, Any]) -> None:
        # A lost lock stays lost, also if the node does not know it yet.
        if self.left() <= 0:
            raise Lost(f"the node's answer came too late, or {_STOPPED}")
        if lock is not None and lock not in said.get("locks", []):
            raise Lost("the session does not hold the lock any more")
        self._count(sent, said)
        self.confirmed = True

    def acquire(self, wanted: "_wire.Wanted") -> "Steps[_wire.Grant]":
        """Waits for the lock in this session, at its place or at another one."""
        for left in reversed(range(len(self.places.endpoints))):
            place, sent = self.place, _wire.now()
            try:
                body = wanted.body(self.id)
                said = yield Ask(place, "POST", _wire.path(wanted.lock, "/acquire"), body, None)
                return (yield from self._on_granted(_wire.Grant.of(wanted.lock, said), sent, said))
            except Error as error:
                if self.why is not None:
                    raise self.why from error
                if left == 0 or not _errors.may_work_elsewhere(error):
                    raise
                self.places.failed(place, error)
                if self.place == place:
                    self.place = self.places.after(place)
        raise AssertionError("there is a place")

    def _on_granted(self, grant: "_wire.Grant", sent: float, said: Dict[str, Any]) -> "Steps[_wire.Grant]":
        safe = int(said.get("safe_ms", 0)) / 1000
        self._safe_until = max(self._safe_until, sent + safe)
        if self._safe_until - _wire.now() <= safe / 2:
            # The answer took long, and little of the safe time is left.
            lost = yield from self.confirm()
            if lost is not None:
                raise lost
        if self.why is not None:
            raise self.why
        if _wire.now() >= self._safe_until:
            raise Lost("the grant came too late")
        self.lock = grant.lock
        return grant

    def delete(self) -> "Steps[None]":
        """Ends the session at the nodes, at whichever place can do it."""
        try:
            yield from _ask_from(self.places, self.place, "DELETE", self.path())
        except Error as error:
            if not _errors.is_gone(error):
                raise


@dataclass
class Attempts:
    """The attempts at one acquisition: whether to try again, and when."""

    wanted: "_wire.Wanted"
    retry_for: float

    def __post_init__(self) -> None:
        self._failing = _wire.now()
        self._failures = 0

    def pause_after(self, error: Error, was_waiting: bool) -> float:
        """Returns how long to wait until the next attempt; raises the error if there is none."""
        if was_waiting:
            # The request was waiting in good order before this.
            self._failing, self._failures = _wire.now(), 0
        end = self._failing + self.retry_for
        if self.wanted.until is not None:
            end = min(end, self.wanted.until)
        again = _errors.may_work_elsewhere(error) or _errors.is_gone(error)
        if not again or self.wanted.is_try or _wire.now() >= end:
            raise error
        pause = max(backoff(self._failures, 1.0), error.retry_after)
        self._failures += 1
        return min(pause, max(end - _wire.now(), 0.0))


class Holding:
    """A granted lock; the part that both clients share. Whoever keeps it alive refers to it, and the program's handle does."""

    def __init__(self, session: Session, grant: "_wire.Grant") -> None:
        self.session = session
        self.grant = grant
        self.is_released = False
        _wire.held.add(self)

    def on_forked(self) -> None:
        """Lets go of the lock in a child process that was forked."""
        raise NotImplementedError


class Handle:
    """What a program has of a granted lock. When it is collected, the lock is released; nothing else refers to it."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding

    def _when_forgotten(self, release: Any) -> None:
        weakref.finalize(self, release).atexit = False

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._holding.grant.lock

    @property
    def fence(self) -> int:
        """The fence: larger than that of every earlier holder. Pass it to whatever the lock protects."""
        return self._holding.grant.fence

    @property
    def slot(self) -> Optional[int]:
        """The number of the permit, where permits are numbered."""
        return self._holding.grant.slot

    @property
    def why_lost(self) -> Optional[str]:
        """Why the lock was lost; `None` while it is held, and after it was released."""
        why = self._holding.session.why
        return None if why is None or self._holding.is_released else str(why)
