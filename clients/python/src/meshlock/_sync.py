"""The client for programs without asyncio."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from . import _asking, _errors, _nearest, _session, _wire
from ._errors import Error, Lost, Unreachable
from ._session import Ask, AskAll, Result, Session, Steps


class Places(_session.Places):
    """The places, which one thread at a time asks which is the nearest."""

    def __init__(self, endpoints: "Tuple[_wire.Endpoint, ...]") -> None:
        super().__init__(endpoints)
        self._asking = threading.Lock()

    def ask_all(self) -> None:
        """Asks which place is the nearest, unless another thread has done so meanwhile."""
        # In a process that was forked meanwhile the other thread is not there. Then the order stays as it is.
        if self._asking.acquire(timeout=2 * _nearest.ANSWER_WITHIN):
            try:
                if not self.is_known:
                    self.prefer(_asking.order(self.endpoints))
            finally:
                self._asking.release()


class _Line:
    """A connection to one place at a time, which is used again for the next request there."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._place: Optional[int] = None
        self._connection: Optional[http.client.HTTPConnection] = None
        self._is_shut = False

    def ask(self, ask: Ask) -> Any:
        """Sends a request, and returns the answer or raises the error that it contains."""
        is_used = self._connection is not None and self._place == ask.place
        try:
            return self._ask(ask)
        except Unreachable:
            if not is_used or self._is_shut:
                raise
            # The node may have closed the connection meanwhile. All requests may be repeated.
            return self._ask(ask)

    def _ask(self, ask: Ask) -> Any:
        where = self.places.endpoints[ask.place]
        try:
            response = self._send(ask)
            content = response.read(_wire.MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unreachable(f"no node answers at {where}: {error}") from error
        except BaseException:
            self.close()
            raise
        if not response.isclosed() or response.will_close:
            self.close()
        if response.status != 200:
            raise _error_of(response, content)
        return _wire.read(content)

    def _send(self, ask: Ask) -> http.client.HTTPResponse:
        endpoint = self.places.endpoints[ask.place]
        if self._place != ask.place:
            self.close()
        connection = self._connection
        if connection is None:
            limit = _session.CONNECT_WITHIN if ask.within is None else min(_session.CONNECT_WITHIN, ask.within)
            if endpoint.tls is None:
                connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=limit)
            else:
                connection = http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=limit, context=endpoint.tls)
            connection.connect()
            _wire.enable_keep_alive(connection.sock)
            self._connection, self._place = connection, ask.place
        if self._is_shut:
            raise OSError("the session is over")
        connection.sock.settimeout(ask.within)
        text = None if ask.body is None else json.dumps(ask.body)
        connection.request(ask.method, ask.path, text, endpoint.headers())
        return connection.getresponse()

    def shut(self) -> None:
        """Ends the request that another thread waits for, and all later ones."""
        self._is_shut = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The other side closed it first.
                pass

    def close(self) -> None:
        """Closes the connection. The next request opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _error_of(response: http.client.HTTPResponse, content: bytes) -> Error:
    try:
        said = _wire.read(content)
    except Error:
        said = {}
    return _errors.of(response.status, said, _wire.retry_after(response.getheader("Retry-After")))


def _drive(steps: "Steps[Result]", line: _Line, over: Optional[threading.Event] = None) -> Result:
    """Does what the steps say."""
    waits = over or threading.Event()
    try:
        step = next(steps)
        while True:
            try:
                answer: Any = None
                if isinstance(step, Ask):
                    answer = line.ask(step)
                elif isinstance(step, AskAll):
                    line.places.ask_all()
                else:
                    waits.wait(step.seconds)
            except Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: Result = done.value
        return result


class _Keeper:
    """The thread that keeps a session alive until it is over."""

    def __init__(self, places: Places, session: Session) -> None:
        self.session = session
        self.over = threading.Event()
        self._places = places
        #: The connection of the thread that waits for the lock.
        self.caller = _Line(places)
        self._line = _Line(places)
        self._mutex = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name=f"meshlock {session.id}", daemon=True)
        self._thread.start()

    def end(self, why: Error) -> bool:
        """Notes why the session is over. The first reason counts; returns whether this is it."""
        with self._mutex:
            if self.session.why is not None:
                return False
            self.session.why = why
        self.over.set()
        self.caller.shut()
        self._line.shut()
        return True

    def is_over(self) -> bool:
        """Whether the session is over. It looks at the clock: the thread may be late."""
        if not self.over.is_set() and self.session.left() <= 0:
            self.end(Lost("this program was stopped for longer than the lock was safe"))
        return self.over.is_set()

    def delete(self) -> None:
        """Ends the session at the nodes, if one of them can be told. Otherwise it ends when its time is over."""
        line = _Line(self._places)
        try:
            _drive(self.session.delete(), line)
        except Error:
            pass
        finally:
            line.close()

    def join(self) -> None:
        """Waits until the thread has ended."""
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def on_forked(self) -> None:
        """Forgets the session in a child process. The thread is not there, and a lock that it held would never be released."""
        self.over, self._mutex = threading.Event(), threading.Lock()
        self.over.set()
        self.session.why = Lost(_wire.FORKED)

    def _keep(self) -> None:
        while not self.over.wait(self.session.pause()):
            lost = _drive(self.session.confirm(), self._line, self.over)
            if lost is not None:
                self.end(lost)
        self._line.close()
        if isinstance(self.session.why, Lost):
            # Others need not wait for what is lost.
            self.delete()


class _Hold(_session.Holding):
    """A granted lock, and what keeps it."""

    def __init__(self, keeper: _Keeper, grant: _wire.Grant) -> None:
        super().__init__(keeper.session, grant)
        self.keeper = keeper

    def release(self) -> None:
        if not self.keeper.is_over() and self.keeper.end(Error("released", "the lock was released")):
            self.is_released = True
            self.keeper.delete()

    def on_forgotten(self) -> None:
        """Releases a lock that the program has lost track of, on another thread: this may be called at any moment."""
        if not self.keeper.over.is_set():
            _wire.warn_forgotten(self.grant.lock)
            try:
                threading.Thread(target=self.release, daemon=True).start()
            except RuntimeError:
                # The interpreter ends; the nodes free the lock when its time is over.
                pass

    def on_forked(self) -> None:
        self.keeper.on_forked()


class Held(_session.Handle):
    """A lock that is held, until `release` or the end of the `with` block.

    A `Held` that is collected without either releases its lock and warns (`ResourceWarning`). In a forked child it is lost: the lock stays
    with the process that took it.
    """

    def __init__(self, hold: _Hold) -> None:
        super().__init__(hold)
        self._hold = hold
        self._when_forgotten(hold.on_forgotten)

    def is_lost(self) -> bool:
        """Whether the lock is held no more: it is lost, or may be lost because no node has confirmed it in time, or was released."""
        return self._hold.keeper.is_over()

    def safe_for(self) -> float:
        """Returns for how many seconds nobody else can have the lock, whatever happens; 0 if it is held no more."""
        return 0.0 if self.is_lost() else max(self._hold.session.left(), 0.0)

    def wait_until_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is held no more. Returns `False` if it is still held after `timeout` seconds."""
        keeper = self._hold.keeper
        until = None if timeout is None else _wire.now() + timeout
        while not keeper.is_over():
            left = keeper.session.left()
            if until is not None:
                left = min(left, until - _wire.now())
                if left <= 0:
                    return keeper.is_over()
            keeper.over.wait(max(left, 0.0))
        return True

    def release(self) -> None:
        """Releases the lock. If no node can be told, it is free when the time to live of its session is over."""
        self._hold.release()


class Client:
    """A client of the nodes whose APIs have these addresses. Threads may share one client.

    It uses the nearest place that answers, and another one when that does not answer, is leaving, or cannot serve.
    """

    def __init__(
        self,
        places: Union[str, Iterable[str]],
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        token: Optional[str] = None,
        ttl: float = 10.0,
        retry_for: float = 30.0,
    ) -> None:
        self._places = Places(_wire.endpoints(places, ca, certificate, key, token))
        self._ttl, self._retry_for = ttl, retry_for

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
        """Holds a lock, or one of `permits` permits, in a `with` block."""
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
        """Waits for a lock. It is held until `release`, until it is lost, or until nothing refers to the `Held` any more."""
        wanted = _wire.Wanted.of(name, blocking, wait, permits, label)
        attempts = _session.Attempts(wanted, self._retry_for)
        while True:
            keeper: Optional[_Keeper] = None
            try:
                keeper = _Keeper(self._places, self._open(wanted.label))
                grant = _drive(keeper.session.acquire(wanted), keeper.caller, keeper.over)
                keeper.caller.close()
                return Held(_Hold(keeper, grant))
            except BaseException as error:
                if keeper is not None:
                    # The request may have been granted, with an answer that was lost: the nodes are told.
                    keeper.end(Error("given_up", "the request was given up"))
                    keeper.caller.close()
                    keeper.delete()
                    keeper.join()
                if not isinstance(error, Error):
                    raise
                pause = attempts.pause_after(error, keeper is not None and keeper.session.confirmed)
                threading.Event().wait(pause)

    def elect(self, election: str, candidate: str, *, wait: Optional[float] = None) -> Held:
        """Waits until this program leads, under the name `candidate`. It leads until it releases or loses what is returned."""
        return self.acquire(election, wait=wait, label=candidate)

    def holders(self, name: str) -> List[Dict[str, Any]]:
        """Returns who holds a lock: `who`, `site` and `fence`. For an election this is who leads."""
        return _wire.holders(self.queue(name))

    def queue(self, name: str) -> Dict[str, Any]:
        """Returns who holds a lock, who waits for it, and why."""
        return self._ask("GET", _wire.path(name))

    def break_lock(self, name: str) -> Dict[str, Any]:
        """Takes a lock away from its holders."""
        return self._ask("POST", _wire.path(name, "/break"))

    def status(self) -> Dict[str, Any]:
        """Returns the status of the site."""
        return self._ask("GET", "/v1/status")

    def rules(self) -> Dict[str, Any]:
        """Returns the rules that say which algorithm each lock uses."""
        return self._ask("GET", "/v1/rules")

    def set_rules(self, rules: Dict[str, Any]) -> Dict[str, Any]:
        """Replaces the rules. This works while locks are held."""
        return self._ask("PUT", "/v1/rules", rules)

    def watch(self, name: str) -> Iterator[Dict[str, Any]]:
        """Yields the holders of a lock, now and whenever they change. It ends with the connection."""
        line = _Line(self._places)
        try:
            place = _drive(_session.nearest(self._places), line)
            response = line._send(Ask(place, "GET", _wire.path(name, "/watch"), None, None))
            if response.status != 200:
                raise _error_of(response, response.read(_wire.MAX_ANSWER))
            while True:
                text = response.readline()
                if not text:
                    return
                yield _wire.read(text)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the node has ended the connection: {error}") from error
        finally:
            line.close()

    def _open(self, label: str) -> Session:
        """Opens a session at one of the places."""
        line = _Line(self._places)
        body = {"ttl_ms": round(self._ttl * 1000), "label": label}
        sent = _wire.now()
        try:
            place, said = _drive(_session.ask_any(self._places, "POST", "/v1/sessions", body), line)
        finally:
            line.close()
        return Session(self._places, place, sent, said)

    def _ask(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        line = _Line(self._places)
        try:
            said: Dict[str, Any] = _drive(_session.ask_any(self._places, method, path, body), line)[1]
            return said
        finally:
            line.close()
