"""How a session is kept, moved and lost, with nodes that behave as a test says. Each test runs with both clients."""

import asyncio
import threading
import unittest
from typing import Any, Callable, Dict, List, Union
from unittest import mock

import meshlock
from fake import Behaviour, FakeCluster, Request, eventually, hangs, leaves
from meshlock import _session, _wire

AnyHeld = Union[meshlock.Held, meshlock.AsyncHeld]


class Blocking:
    """Uses the blocking client."""

    def __init__(self, places: str, **options: Any) -> None:
        self.client = meshlock.Client(places, **options)

    def acquire(self, name: str, **options: Any) -> AnyHeld:
        return self.client.acquire(name, **options)

    def release(self, held: AnyHeld) -> None:
        held.release()

    def end(self) -> None:
        pass


class Tasks:
    """Uses the client for asyncio, in a loop on another thread."""

    def __init__(self, places: str, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.client = meshlock.AsyncClient(places, **options)

    def acquire(self, name: str, **options: Any) -> AnyHeld:
        return asyncio.run_coroutine_threadsafe(self.client.acquire(name, **options), self.loop).result(60)

    def release(self, held: AnyHeld) -> None:
        async def release() -> None:
            await held.release()  # type: ignore[misc]

        asyncio.run_coroutine_threadsafe(release(), self.loop).result(60)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


def other_site(request: Request) -> bool:
    return request.refuse(412, "other_site")


def no_node(request: Request) -> bool:
    return request.say(502, "<html>")


TROUBLES: Dict[str, Behaviour] = {"leaves": leaves, "hangs": hangs, "other site": other_site, "no node": no_node}


class Sessions(unittest.TestCase):
    def each(self, safe_ms: int, nodes: int, test: Callable[[FakeCluster, Any], None], **options: Any) -> None:
        for kind in (Blocking, Tasks):
            with self.subTest(kind.__name__):
                cluster = FakeCluster(safe_ms, nodes)
                user = kind(cluster.places(), **{"retry_for": 20, **options})
                try:
                    test(cluster, user)
                finally:
                    user.end()
                    cluster.end()

    def test_a_fence_is_exact_beyond_what_a_float_holds(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            held = user.acquire("a/b ü")
            self.assertEqual((held.fence, held.slot, held.name), (9007199254740993, 0, "a/b ü"))
            self.assertEqual(cluster.sessions["s1"], ["a/b ü"])
            self.assertGreater(held.safe_for(), 0)
            user.release(held)
            user.release(held)
            self.assertEqual((held.is_lost(), held.why_lost, held.safe_for()), (True, None, 0))
            self.assertEqual(cluster.deleted, ["s1"])

        self.each(60_000, 1, test)

    def test_a_session_goes_on_at_another_place(self) -> None:
        for name, trouble in TROUBLES.items():

            def test(cluster: FakeCluster, user: Any, trouble: Behaviour = trouble) -> None:
                held = user.acquire("jobs")
                cluster.nodes[0].behaviour = trouble
                asked = "POST /v1/sessions/s1/keep-alive"
                eventually("the second node is asked for it", lambda: asked in cluster.nodes[1].seen)
                eventually("it is safe for longer", lambda: held.safe_for() > 1.2)
                self.assertFalse(held.is_lost(), held.why_lost)
                user.release(held)
                self.assertEqual(cluster.deleted, ["s1"])

            with self.subTest(name):
                self.each(2000, 2, test)

    def test_a_node_that_is_gone_is_passed_over(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            held = user.acquire("jobs")
            cluster.nodes[0].end()
            eventually("the second node is asked", lambda: bool(cluster.nodes[1].seen))
            again = user.acquire("jobs")
            self.assertFalse(held.is_lost() or again.is_lost())
            user.release(held)
            user.release(again)

        self.each(4000, 2, test)

    def test_a_lock_that_nobody_confirms_is_lost_in_time_and_stays_lost(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            held = user.acquire("jobs")
            cluster.nodes[0].behaviour, cluster.nodes[1].behaviour = hangs, leaves
            session = held._holding.session
            eventually("it says so itself", lambda: session.why is not None)
            self.assertTrue(held.is_lost())
            self.assertIn("no node has confirmed the lock in time", held.why_lost)
            for node in cluster.nodes:
                node.behaviour = None
            again = user.acquire("jobs")
            self.assertEqual((held.is_lost(), again.is_lost()), (True, False))
            user.release(again)

        self.each(600, 2, test)

    def test_an_answer_that_comes_after_the_time_revives_nothing(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            held = user.acquire("jobs")
            clock = _wire.now
            with mock.patch("meshlock._wire.now", clock) as _:

                def sleeps(_: Request) -> bool:
                    # As if the machine had been suspended while the answer was on its way.
                    cluster.nodes[0].behaviour = None
                    _wire.now = lambda: clock() + 3600
                    return False

                cluster.nodes[0].behaviour = sleeps
                eventually("it is lost", lambda: held._holding.session.why is not None)
            self.assertTrue(held.is_lost())
            eventually("others need not wait", lambda: cluster.deleted == ["s1"])

        self.each(4000, 1, test)

    def test_the_safe_time_is_counted_from_when_the_request_was_sent(self) -> None:
        session = _session.Session(_session.Places(_wire.endpoints("a", None, None, None, None)), 0, _wire.now(), {})
        said = {"safe_ms": 60_000, "left_ms": 120_000, "locks": ["jobs"]}
        session._count(_wire.now(), said)
        session.lock = "jobs"
        steps, clock = session.confirm(), _wire.now
        next(steps)
        # The answer is on its way for half of the time.
        with mock.patch("meshlock._wire.now", lambda: clock() + 30):
            with self.assertRaises(StopIteration) as done:
                steps.send(said)
            self.assertIsNone(done.exception.value)
            self.assertTrue(0 < session.left() <= 30, session.left())

    def test_an_answer_that_promises_more_after_the_time_revives_nothing(self) -> None:
        session = _session.Session(_session.Places(_wire.endpoints("a", None, None, None, None)), 0, _wire.now(), {})
        said = {"safe_ms": 60_000, "left_ms": 120_000, "locks": ["jobs"]}
        session._count(_wire.now(), said)
        session.lock = "jobs"
        clock = _wire.now
        with mock.patch("meshlock._wire.now", lambda: clock() + 20):
            steps = session.confirm()
            next(steps)
        # The first promise ends while the answer is on its way, whose own would end later.
        with mock.patch("meshlock._wire.now", lambda: clock() + 65):
            with self.assertRaises(StopIteration) as done:
                steps.send(said)
            self.assertIsInstance(done.exception.value, meshlock.Lost)

    def test_a_session_that_is_gone_or_without_the_lock_is_lost_at_once(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            gone, without = user.acquire("a"), user.acquire("b")
            del cluster.sessions["s1"]
            cluster.sessions["s2"] = ["another"]
            eventually("both are lost", lambda: gone.is_lost() and without.is_lost())
            self.assertIn("no_session", gone.why_lost)
            self.assertIn("does not hold", without.why_lost)

        self.each(4000, 2, test)

    def test_an_outage_is_reported_as_one(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            for node in cluster.nodes:
                node.behaviour = leaves
            with self.assertRaises(meshlock.Unavailable):
                user.acquire("jobs", blocking=False)
            with self.assertRaises(meshlock.Unavailable):
                user.acquire("jobs", wait=0.05)
            threading.Timer(0.05, setattr, (cluster.nodes[1], "behaviour", None)).start()
            user.release(user.acquire("jobs"))

        self.each(60_000, 2, test)

    def test_a_redirection_is_not_followed(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            def redirects(request: Request) -> bool:
                request.send_response(307)
                request.send_header("Location", cluster.nodes[1].url + request.path)
                request.send_header("Content-Length", "0")
                request.end_headers()
                return True

            for node in cluster.nodes:
                node.behaviour = redirects
            with self.assertRaises(meshlock.Error):
                user.acquire("jobs", blocking=False)
            self.assertEqual([node.seen for node in cluster.nodes], [["POST /v1/sessions"]] * 2)

        self.each(60_000, 2, test, token="secret")

    def test_a_request_whose_session_ends_is_made_anew(self) -> None:
        def test(cluster: FakeCluster, user: Any) -> None:
            def forgets(request: Request) -> bool:
                if not request.path.endswith("/acquire"):
                    return False
                # The node has forgotten the session, as after a restart, and does not answer.
                cluster.nodes[0].behaviour = None
                cluster.sessions.clear()
                return hangs(request)

            cluster.nodes[0].behaviour = forgets
            held = user.acquire("jobs")
            self.assertEqual(cluster.sessions, {"s2": ["jobs"]})
            user.release(held)

        self.each(600, 1, test)

    def test_nothing_is_left_behind(self) -> None:
        before = threading.active_count()
        cluster = FakeCluster(60_000, 1)
        for _ in range(3):
            Blocking(cluster.places()).acquire("jobs").release()
        cluster.end()
        eventually("no thread is left", lambda: threading.active_count() <= before)

        async def cancelled() -> List[str]:
            cluster = FakeCluster(60_000, 1)
            waits = threading.Event()

            def waiting(request: Request) -> bool:
                if not request.path.endswith("/acquire"):
                    return False
                waits.set()
                return hangs(request)

            cluster.nodes[0].behaviour = waiting
            task = asyncio.ensure_future(cluster.async_client().acquire("jobs"))
            await asyncio.get_running_loop().run_in_executor(None, waits.wait, 60)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await asyncio.get_running_loop().run_in_executor(
                None, eventually, "the session is ended", lambda: cluster.deleted == ["s1"]
            )
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            cluster.end()
            return cluster.deleted

        self.assertEqual(asyncio.run(cancelled()), ["s1"])

    def test_nonsense_is_refused(self) -> None:
        for nonsense in ("", " , ", "ftp://x", "http://", "http://host/path", "http://u:p@host", "http://a?b", []):
            with self.assertRaises(ValueError):
                meshlock.Client(nonsense)
        for token in ("two words", "ümlaut", ""):
            with self.assertRaises(ValueError):
                meshlock.AsyncClient("a", token=token)
        places = meshlock.Client([" a ", "https://[::1]:1"])._places.endpoints
        self.assertEqual([str(place) for place in places], ["a:2379", "[::1]:1"])

    def test_where_no_clock_counts_suspension_the_one_that_has_gone_further_counts(self) -> None:
        with mock.patch("meshlock._wire._BOOTTIME", None):
            first = _wire.now()
            self.assertLessEqual(first, _wire.now())
            with mock.patch("time.time", lambda: 1e12):
                later = _wire.now()
            # It does not go back with the wall clock.
            self.assertGreater(later, 1e9)
            self.assertEqual(_wire.now(), later)
        _wire._furthest = 0.0

    def test_pauses_grow_and_stay_bounded(self) -> None:
        self.assertTrue(all(0 < _session.backoff(failures, 1.0) <= 1.0 for failures in range(100)))
        self.assertLessEqual(_session.backoff(0, 1.0), 0.025)


if __name__ == "__main__":
    unittest.main()
