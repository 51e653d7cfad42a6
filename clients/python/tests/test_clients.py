"""Tests of both clients against a running node, whose API has the address MESHLOCK_API."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import meshlock

API = os.environ["MESHLOCK_API"]


def client() -> meshlock.Client:
    return meshlock.Client(API)


def program(code: str) -> "subprocess.Popen[str]":
    """Starts a program that uses this package."""
    code = f"import os, meshlock\nAPI = os.environ['MESHLOCK_API']\n{code}"
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)


class Locks(unittest.TestCase):
    def test_a_lock_excludes_others_and_is_free_afterwards(self) -> None:
        with client().lock("py/one", label="first") as held:
            self.assertEqual(held.name, "py/one")
            self.assertFalse(held.is_lost())
            with self.assertRaises(meshlock.Busy):
                client().acquire("py/one", blocking=False)
            with self.assertRaises(meshlock.TimedOut):
                client().acquire("py/one", wait=0.05)
            self.assertIn("first", str(client().queue("py/one")))
            fence = held.fence
        with client().lock("py/one") as held:
            self.assertGreater(held.fence, fence)

    def test_a_token_that_nobody_knows_is_refused_by_name_and_never_shown(self) -> None:
        with self.assertRaises(meshlock.Error) as refused:
            meshlock.Client(API, token="secret-guess").acquire("py/token")
        self.assertEqual(refused.exception.code, "unauthenticated")
        with self.assertRaises(meshlock.Error) as refused:
            asyncio.run(meshlock.AsyncClient(API, token="secret-guess").acquire("py/token"))
        self.assertEqual(refused.exception.code, "unauthenticated")
        self.assertNotIn("secret-guess", str(refused.exception))
        with self.assertRaises(ValueError):
            meshlock.Client(API, token="two words")

    def test_threads_count_under_a_lock_and_lose_nothing(self) -> None:
        counter = {"value": 0, "inside": 0}

        def count() -> None:
            for _ in range(10):
                with client().lock("py/counter"):
                    counter["inside"] += 1
                    self.assertEqual(counter["inside"], 1)
                    value = counter["value"]
                    counter["value"] = value + 1
                    counter["inside"] -= 1

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counter["value"], 40)

    def test_a_lock_that_is_broken_is_lost_and_its_holder_is_told(self) -> None:
        with client().lock("py/broken") as held:
            client().break_lock("py/broken")
            self.assertTrue(held.wait_until_lost(30))
            self.assertTrue(held.is_lost())
            self.assertIsNotNone(held.why_lost)

    def test_a_lock_counts_as_lost_when_the_time_that_the_node_called_safe_is_over(self) -> None:
        with client().lock("py/asleep") as held:
            self.assertFalse(held.is_lost())
            with mock.patch("meshlock._wire.now", lambda: time.monotonic() + 1e9):
                self.assertTrue(held.is_lost())
            # A lost lock stays lost.
            self.assertTrue(held.is_lost())

    def test_a_program_that_is_stopped_loses_its_lock_in_time(self) -> None:
        for code in (
            "held = meshlock.Client(API, ttl=2).acquire('py/stopped'); print('in', flush=True); input(); print(held.is_lost())",
            "import asyncio\n"
            "async def main():\n"
            "    held = await meshlock.AsyncClient(API, ttl=2).acquire('py/stopped')\n"
            "    print('in', flush=True)\n"
            "    await asyncio.get_running_loop().run_in_executor(None, input)\n"
            "    print(held.is_lost())\n"
            "asyncio.run(main())",
        ):
            with program(code) as holder:
                assert holder.stdout is not None and holder.stdin is not None
                self.assertEqual(holder.stdout.readline(), "in\n")
                os.kill(holder.pid, signal.SIGSTOP)
                try:
                    # Nothing else frees it than that its session is not kept alive.
                    client().acquire("py/stopped", wait=25).release()
                finally:
                    os.kill(holder.pid, signal.SIGCONT)
                self.assertEqual(holder.communicate("go\n")[0], "True\n")

    def test_a_forked_child_does_not_hold_its_parents_lock(self) -> None:
        code = (
            "held = meshlock.Client(API, ttl=2).acquire('py/forked')\n"
            "if os.fork():\n"
            "    print(os.wait()[1] if input() else '', flush=True)\n"
            "else:\n"
            "    print(held.is_lost(), held.why_lost, flush=True)\n"
            "    held.release()\n"
            "    os._exit(0)\n"
        )
        with program(code) as holder:
            assert holder.stdout is not None and holder.stdin is not None
            self.assertEqual(holder.stdout.readline(), "True this process was forked from the one that holds the lock\n")
            with self.assertRaises(meshlock.Busy):
                client().acquire("py/forked", blocking=False)
            self.assertEqual(holder.communicate("go\n")[0], "0\n")
        # Here the parent ends at once, and the child lives on.
        code = (
            "held = meshlock.Client(API, ttl=2).acquire('py/forked')\n"
            "if os.fork():\n"
            "    os._exit(0)\n"
            "print(os.getpid(), flush=True)\n"
            "input()\n"
        )
        with program(code) as parent:
            assert parent.stdout is not None and parent.stdin is not None
            self.assertNotEqual(parent.stdout.readline(), "", "the child is there")
            client().acquire("py/forked", wait=25).release()
            parent.communicate("go\n")

    def test_a_lock_that_is_forgotten_is_released_with_a_warning(self) -> None:
        with self.assertWarnsRegex(ResourceWarning, "'py/forgotten' was never released"):
            held = client().acquire("py/forgotten")
            del held
            gc.collect()
        client().acquire("py/forgotten", wait=25).release()

        async def forget() -> None:
            held = await meshlock.AsyncClient(API).acquire("py/forgotten")
            del held
            gc.collect()
            (await meshlock.AsyncClient(API).acquire("py/forgotten", wait=25)).release()

        with self.assertWarnsRegex(ResourceWarning, "'py/forgotten' was never released"):
            asyncio.run(forget())

    def test_a_program_that_is_killed_gives_its_lock_back(self) -> None:
        script = "import meshlock, sys; held = meshlock.Client(sys.argv[1], ttl=2).acquire('py/killed'); print('in', flush=True); input()"
        other = subprocess.Popen(
            [sys.executable, "-c", script, API], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None and other.stdin is not None
        self.assertEqual(other.stdout.readline(), "in\n")
        with self.assertRaises(meshlock.Busy):
            client().acquire("py/killed", blocking=False)
        other.kill()
        other.wait()
        other.stdout.close()
        other.stdin.close()
        with client().lock("py/killed", wait=30):
            pass

    def test_a_semaphore_lets_as_many_in_as_it_has_permits(self) -> None:
        with client().lock("py/pool", permits=2) as first, client().lock("py/pool", permits=2) as second:
            self.assertEqual({first.slot, second.slot}, {0, 1})
            with self.assertRaises(meshlock.Busy):
                client().acquire("py/pool", permits=2, blocking=False)
            for other in (1, 3, None):
                with self.assertRaises(meshlock.Error) as refused:
                    client().acquire("py/pool", permits=other)
                self.assertEqual(refused.exception.code, "permits")
                self.assertIn("in use with 2 permits and this program expects %d" % (other or 1), str(refused.exception))
        with client().lock("py/pool"):  # Nothing is left of the semaphore.
            with self.assertRaises(meshlock.Error) as refused:
                client().acquire("py/pool", permits=2)
            self.assertIn("in use with 1 permit and this program expects 2", str(refused.exception))

    def test_a_leader_is_known_by_its_name(self) -> None:
        leader = client().elect("py/leader", "alice")
        (holder,) = client().holders("py/leader")
        self.assertEqual(holder["fence"], leader.fence)
        self.assertIn("alice", holder["who"])
        leader.release()
        self.assertEqual(client().holders("py/leader"), [])

    def test_what_makes_no_sense_is_an_error_that_says_so(self) -> None:
        for nonsense in ("ftp://x", "http://", "http://host/path"):
            with self.assertRaises(ValueError):
                meshlock.Client(nonsense)
        with self.assertRaises(ValueError):
            client().acquire("py/x", blocking=False, wait=1)
        with self.assertRaises(meshlock.Error) as refused:
            client().acquire("x" * 300)
        self.assertEqual(refused.exception.code, "bad_request")
        with self.assertRaises(meshlock.Unreachable):
            meshlock.Client("http://127.0.0.1:1").status()

    def test_an_operator_sees_the_site_and_its_rules_and_watches_a_lock(self) -> None:
        self.assertIn("site", client().status())
        rules = client().rules()
        self.assertEqual(client().set_rules(rules), rules)
        watch = client().watch("py/watched")
        self.assertEqual(next(watch).get("holders", []), [])
        with client().lock("py/watched"):
            self.assertEqual(len(next(watch)["holders"]), 1)
        watch.close()


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def test_tasks_take_turns_and_fences_grow(self) -> None:
        client, fences, inside = meshlock.AsyncClient(API), [], 0

        async def enter() -> None:
            nonlocal inside
            async with client.lock("py/tasks") as held:
                inside += 1
                self.assertEqual(inside, 1)
                await asyncio.sleep(0)
                fences.append(held.fence)
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(8)))
        self.assertEqual(fences, sorted(set(fences)))

    async def test_a_task_that_is_cancelled_while_it_waits_leaves_no_trace(self) -> None:
        client = meshlock.AsyncClient(API)
        async with client.lock("py/cancelled"):
            waiting = asyncio.ensure_future(client.acquire("py/cancelled"))
            while not (await client.queue("py/cancelled")).get("waiters"):
                pass
            waiting.cancel()
            while (await client.queue("py/cancelled")).get("waiters"):
                pass
        async with client.lock("py/cancelled", wait=30):
            pass

    async def test_a_task_that_was_kept_from_running_counts_its_lock_as_lost(self) -> None:
        async with meshlock.AsyncClient(API).lock("py/busy") as held:
            self.assertFalse(held.is_lost())
            with mock.patch("meshlock._wire.now", lambda: time.monotonic() + 1e9):
                self.assertTrue(held.is_lost())
            await asyncio.wait_for(held.lost(), 30)

    async def test_loss_is_told_and_errors_are_the_same(self) -> None:
        client = meshlock.AsyncClient(API)
        async with client.lock("py/lost") as held:
            with self.assertRaises(meshlock.Busy):
                await client.acquire("py/lost", blocking=False)
            await client.break_lock("py/lost")
            await asyncio.wait_for(held.lost(), 30)
            self.assertTrue(held.is_lost())
        with self.assertRaises(meshlock.TimedOut):
            async with client.lock("py/late"):
                await client.acquire("py/late", wait=0.05)
        with self.assertRaises(meshlock.Unreachable):
            await meshlock.AsyncClient("http://127.0.0.1:1").status()
        self.assertIn("site", await client.status())


if __name__ == "__main__":
    unittest.main()
