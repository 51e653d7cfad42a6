"""Locks and semaphores of a Meshlock cluster."""

from ._errors import Busy, Error, TimedOut, Unavailable, Unreachable
from ._aio import AsyncClient, AsyncHeld
from ._sync import Client, Held

__all__ = ["AsyncClient", "AsyncHeld", "Busy", "Client", "Error", "Held", "TimedOut", "Unavailable", "Unreachable"]
