"""The errors that the clients raise."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The node refused a request. `code` is the code of the API; the text says why, and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Busy(Error):
    """Someone else holds the lock, and the caller did not want to wait."""


class TimedOut(Error):
    """The lock was not granted within the time that the caller gave."""


class Unavailable(Error):
    """The cluster cannot say who holds the lock: the node is cut off, or other nodes do not answer. Nobody is known to hold it."""


class Unreachable(Error):
    """No node answers."""

    def __init__(self, message: str) -> None:
        super().__init__("unreachable", message)


def of(status: int, said: Any) -> Error:
    """Returns the error that an answer describes."""
    told = said if isinstance(said, dict) else {}
    code = str(told.get("code", f"http_{status}"))
    message = str(told.get("message", f"the node answered with status {status}"))
    kinds = {"busy": Busy, "timed_out": TimedOut, "unavailable": Unavailable}
    return kinds.get(code, Error)(code, message)
