"""Holds a lock with python-etcd3, whose user refreshes it, and says on CLOCK_MONOTONIC when it has it and when it has lost it.

The library refreshes nothing by itself. Its user is told the time to live at each refresh, and counts it from when it asked.
"""

import sys
import threading
import time

import etcd3

host, port = sys.argv[1].rsplit(":", 1)
lock = etcd3.client(host=host, port=int(port), timeout=1).lock("jobs", ttl=60)
assert lock.acquire()
told = time.monotonic() + lock.lease.ttl
print("held", time.monotonic_ns(), flush=True)

# A call may hang, so that somebody else watches the time.
over = threading.Event()


def refresh():
    global told
    while not over.is_set():
        asked = time.monotonic()
        try:
            answers = lock.refresh()
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
        else:
            told = asked + answers[0].TTL if answers and answers[0].TTL > 0 else 0
        over.wait(0.5)


threading.Thread(target=refresh, daemon=True).start()
while time.monotonic() < told:
    over.wait(0.05)
over.set()
print("lost", time.monotonic_ns(), flush=True)
threading.Event().wait()
