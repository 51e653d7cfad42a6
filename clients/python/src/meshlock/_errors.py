"""What can go wrong."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The node refuses something: `code` is the API's, the text says why and what would be right."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Busy(Error):
    """Someone else has the lock, and the caller did not want to wait."""


class TimedOut(Error):
    """The caller did not want to wait any longer."""


class Unreachable(Error):
    """No node answers."""

    def __init__(self, message: str) -> None:
        super().__init__("unreachable", message)


def of(status: int, said: Any) -> Error:
    """The error that an answer tells."""
    told = said if isinstance(said, dict) else {}
    code = str(told.get("code", f"http_{status}"))
    message = str(told.get("message", f"the node answers with status {status}"))
    kinds = {"busy": Busy, "timed_out": TimedOut}
    return kinds.get(code, Error)(code, message)
