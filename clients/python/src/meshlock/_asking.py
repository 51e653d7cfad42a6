"""Asks all places at once whether they serve, over connections that do not block: no thread is started."""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
from typing import Dict, Generator, Iterable, List, Tuple

from . import _nearest, _wire

#: The questions to one place: they yield the socket and what to wait for, and return whether the place serves.
_Question = Generator[Tuple[socket.socket, int], None, bool]

#: More than the status line of an answer takes, in bytes.
_LONGEST_STATUS = 1000


def _exchange(sock: socket.socket, endpoint: _wire.Endpoint) -> _Question:
    """Sends the request, and reads the status of the answer."""
    request = f"GET {_nearest.QUESTION} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n".encode()
    said = b""
    while request or b"\n" not in said:
        try:
            if request:
                request = request[sock.send(request) :]
                continue
            part = sock.recv(_LONGEST_STATUS)
            said += part
            if not part or len(said) > _LONGEST_STATUS:
                break
        except BlockingIOError:
            yield sock, selectors.EVENT_WRITE if request else selectors.EVENT_READ
        # TLS may have to read before it can write: sending begins with the handshake.
        except ssl.SSLWantReadError:
            yield sock, selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            yield sock, selectors.EVENT_WRITE
    return said.split()[1:2] == [b"200"]


def _ask(endpoint: _wire.Endpoint) -> _Question:
    """Asks one place. Its name is resolved first, which the system does only in calls that block."""
    try:
        addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            if sock.connect_ex(address) not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                continue
            yield sock, selectors.EVENT_WRITE
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                continue
            if endpoint.tls is not None:
                sock = endpoint.tls.wrap_socket(sock, server_hostname=endpoint.host, do_handshake_on_connect=False)
            return (yield from _exchange(sock, endpoint))
        except OSError:
            # The name may have another address.
            pass
        finally:
            sock.close()
    return False


def order(endpoints: Iterable[_wire.Endpoint]) -> List[int]:
    """Returns the indices of these places in the order in which they are preferred. When that is known, the other questions end."""
    asked = {place: _ask(endpoint) for place, endpoint in enumerate(endpoints)}
    race = _nearest.Race(len(asked), _wire.now())
    with selectors.DefaultSelector() as selector:
        try:
            for place in asked:
                _go_on(asked, place, race, selector)
            until = race.waits_until()
            while until is not None:
                ready = selector.select(max(until - _wire.now(), 0.0))
                if not ready and _wire.now() >= until:
                    break
                for key, _ in ready:
                    selector.unregister(key.fileobj)
                    _go_on(asked, key.data, race, selector)
                until = race.waits_until()
        finally:
            for question in asked.values():
                question.close()
    return race.order()


def _go_on(asked: "Dict[int, _Question]", place: int, race: _nearest.Race, selector: selectors.BaseSelector) -> None:
    """Does what can be done for one question, until it has to wait or is answered."""
    try:
        sock, event = next(asked[place])
        selector.register(sock, event, place)
    except StopIteration as done:
        race.on_answer(place, bool(done.value), _wire.now())
