"""Locks and semaphores of a Meshlock cluster."""

from ._errors import Busy, Deadlock, Error, Lost, TimedOut, Unavailable, Unreachable
from ._aio import AsyncClient, AsyncHeld
from ._sync import Client, Held

__all__ = [
    "AsyncClient",
    "AsyncHeld",
    "Busy",
    "Deadlock",
    "Client",
    "Error",
    "Held",
    "Lost",
    "TimedOut",
    "Unavailable",
    "Unreachable",
]
