"""The errors that the clients raise."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The node refused a request. `code` is the code of the API; the text says why, and what to do."""

    def __init__(self, code: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        #: For how many seconds the node asks to wait; 0 if it does not say.
        self.retry_after = retry_after


class Busy(Error):
    """Someone else holds the lock, and the caller did not want to wait."""


class TimedOut(Error):
    """The lock was not granted within the time that the caller gave."""


class Deadlock(Error):
    """The request was the youngest one of a deadlock between locks, and the lock's rule says that it does not wait."""


class Unavailable(Error):
    """The cluster cannot say who holds the lock: the node is cut off, or other nodes do not answer. Nobody is known to hold it."""


class Unreachable(Error):
    """No node answers."""

    def __init__(self, message: str) -> None:
        super().__init__("unreachable", message)


class Lost(Error):
    """The lock is lost, or may be lost."""

    def __init__(self, message: str) -> None:
        super().__init__("lost", message)


def of(status: int, said: Any, retry_after: float = 0.0) -> Error:
    """Returns the error that an answer describes."""
    told = said if isinstance(said, dict) else {}
    code = str(told.get("code", "unavailable" if status == 503 else "not_understood"))
    message = str(told.get("message", f"the node answered with status {status}"))
    kinds = {"busy": Busy, "timed_out": TimedOut, "deadlock": Deadlock, "unavailable": Unavailable}
    return kinds.get(code, Error)(code, message, retry_after)


_ELSEWHERE = frozenset(
    ("unreachable", "unavailable", "other_site", "too_many", "too_fast", "too_slow", "not_understood")
)


def may_work_elsewhere(error: Error) -> bool:
    """Whether another node, or the same one later, may answer otherwise."""
    return error.code in _ELSEWHERE


def is_gone(error: Error) -> bool:
    """Whether an error says that a session, and all that it held, is gone."""
    return error.code in ("no_session", "session_over", "lost")
