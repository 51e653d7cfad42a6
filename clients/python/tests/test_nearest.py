"""Which of several places the clients prefer, with nodes that behave as a test says. Each test runs with both clients."""

import socket
import threading
import unittest
from typing import Any, List
from unittest import mock

import test_sessions
from fake import Request, eventually, holds_back, leaves
from meshlock import _asking, _nearest, _wire


def ready(request: Request) -> bool:
    """Says at once that the node is ready, whatever the others do, and answers everything else."""
    return request.path == "/readyz" and request.say(200, {})


def unready(request: Request) -> bool:
    return request.path == "/readyz" and leaves(request)


class Silent:
    """Does not say whether the node is ready, and answers everything else."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __call__(self, request: Request) -> bool:
        if request.path != "/readyz":
            return False
        holds_back(request)
        self.ended.set()
        return True


class Nearest(unittest.TestCase):
    each = test_sessions.Sessions.each

    def test_a_place_that_answers_is_preferred_to_one_that_does_not(self) -> None:
        def test(cluster: Any, user: Any) -> None:
            silent = Silent()
            cluster.nodes[0].behaviour, cluster.nodes[1].behaviour = silent, ready
            before = threading.active_count()
            user.release(user.acquire("jobs"))
            self.assertTrue(silent.ended.wait(60), "the question is cancelled")
            user.release(user.acquire("jobs"))
            self.assertEqual(cluster.nodes[0].seen, [])
            # Each place is asked once, and stays where it is while the preferred one is well.
            self.assertEqual([node.asked for node in cluster.nodes], [1, 1])
            eventually("no thread is left", lambda: threading.active_count() <= before)

        self.each(60_000, 2, test)

    def test_a_place_that_is_not_ready_is_passed_over_and_all_are_asked_anew_when_the_preferred_one_fails(self) -> None:
        def test(cluster: Any, user: Any) -> None:
            first, second, third = cluster.nodes
            first.behaviour, second.behaviour, third.behaviour = unready, ready, Silent()
            user.release(user.acquire("jobs"))
            first.behaviour = ready
            user.release(user.acquire("jobs"))
            self.assertEqual((first.asked, first.seen, third.seen), (1, [], []))
            # The next one serves this time.
            second.behaviour = leaves
            user.release(user.acquire("jobs"))
            self.assertEqual((first.asked, first.seen), (1, []))
            self.assertNotEqual(third.seen, [])
            user.release(user.acquire("jobs"))
            self.assertEqual(first.asked, 2)
            self.assertNotEqual(first.seen, [])

        self.each(60_000, 3, test)

    def test_a_single_place_is_not_asked(self) -> None:
        def test(cluster: Any, user: Any) -> None:
            user.release(user.acquire("jobs"))
            cluster.nodes[0].behaviour = leaves
            with self.assertRaises(Exception):
                user.acquire("jobs", blocking=False)
            self.assertEqual(cluster.nodes[0].asked, 0)

        self.each(60_000, 1, test)

    def test_many_calls_ask_each_place_once(self) -> None:
        def test(cluster: Any, user: Any) -> None:
            def call() -> None:
                user.release(user.acquire("jobs"))

            calls: List[threading.Thread] = [threading.Thread(target=call) for _ in range(8)]
            for thread in calls:
                thread.start()
            for thread in calls:
                thread.join(60)
            self.assertEqual(cluster.nodes[0].asked, 1)
            self.assertLessEqual(cluster.nodes[1].asked, 1)

        self.each(60_000, 2, test)

    def test_a_place_where_nobody_listens_is_passed_over(self) -> None:
        with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as listener:
            closed.bind(("127.0.0.1", 0))
            places = [f"127.0.0.1:{each.getsockname()[1]}" for each in (closed, listener)]

            def answer() -> None:
                connection = listener.accept()[0]
                connection.recv(1000)
                # The status line comes in two parts.
                connection.sendall(b"HTTP/1.1 2")
                connection.sendall(b"00 OK\r\n\r\n")
                connection.recv(1)
                connection.close()

            node = threading.Thread(target=answer)
            node.start()
            endpoints = _wire.endpoints(["no-such-host.invalid", *places], None, None, None, None)
            with mock.patch("socket.getaddrinfo", _resolves_addresses(socket.getaddrinfo)):
                self.assertEqual(_asking.order(endpoints), [2, 0, 1])
            node.join(60)

    def test_the_race_decides_as_the_page_says(self) -> None:
        # The first of the list is taken as soon as it serves.
        race = _nearest.Race(3, 7.0)
        self.assertEqual((race.waits_until(), race.order()), (8.0, [0, 1, 2]))
        race.on_answer(0, True, 7.3)
        self.assertEqual((race.waits_until(), race.order()), (None, [0, 1, 2]))
        # A place that answers much later comes later.
        race = _nearest.Race(3, 7.0)
        race.on_answer(2, True, 7.25)
        self.assertEqual((race.waits_until(), race.order()), (7.25 + _nearest.EQUALLY_NEAR, [2, 0, 1]))
        race.on_answer(0, True, 7.5)
        self.assertEqual((race.waits_until(), race.order()), (7.25 + _nearest.EQUALLY_NEAR, [2, 0, 1]))
        # Among places that are equally near the list decides.
        race = _nearest.Race(3, 7.0)
        race.on_answer(2, True, 7.25)
        race.on_answer(1, True, 7.25 + _nearest.EQUALLY_NEAR)
        self.assertEqual((race.waits_until(), race.order()), (7.25 + _nearest.EQUALLY_NEAR, [1, 2, 0]))
        race.on_answer(0, False, 7.25)
        self.assertEqual((race.waits_until(), race.order()), (None, [1, 2, 0]))
        # Places that fail come last, and if all do nothing is waited for.
        race = _nearest.Race(3, 7.0)
        race.on_answer(0, False, 7.1)
        race.on_answer(1, False, 7.1)
        self.assertEqual((race.waits_until(), race.order()), (8.0, [2, 0, 1]))
        race.on_answer(2, False, 7.1)
        self.assertEqual((race.waits_until(), race.order()), (None, [0, 1, 2]))


def _resolves_addresses(system: Any) -> Any:
    """Returns a resolver that knows no names, and does not ask a server."""

    def resolve(host: str, *more: Any, **options: Any) -> Any:
        if not host[0].isdigit():
            raise socket.gaierror(f"{host} has no address")
        return system(host, *more, **options)

    return resolve


if __name__ == "__main__":
    unittest.main()
