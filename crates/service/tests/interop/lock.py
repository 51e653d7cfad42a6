"""What python-etcd3's Lock shows its user, line by line."""

import sys
import threading

import etcd3

host, port = sys.argv[1].rsplit(":", 1)


def client():
    return etcd3.client(host=host, port=int(port), timeout=20)


first, second = client().lock("jobs", ttl=60), client().lock("jobs", ttl=60)
print("first acquires:", first.acquire())
print("first has it:", first.is_acquired(), "second has it:", second.is_acquired())
print("second does not wait:", second.acquire(timeout=0))
print("second releases what it has not:", second.release())
print("first still has it:", first.is_acquired())
print("refreshed to:", [answer.TTL for answer in first.refresh()])

# Released before the waiter watches, the lock would be seen free only when its timeout has passed: the client does not say since when.
watching = threading.Event()
watch = second.etcd_client.add_watch_callback


def watch_and_say(*arguments, **options):
    number = watch(*arguments, **options)
    watching.set()
    return number


second.etcd_client.add_watch_callback = watch_and_say
outcome = []
waiter = threading.Thread(target=lambda: outcome.append(second.acquire(timeout=30)))
waiter.start()
watching.wait()
print("first releases:", first.release())
waiter.join()
print("second has waited:", outcome, second.is_acquired())
print("first releases again:", first.release())
print("second still has it:", second.is_acquired())

second.lease.revoke()
print("second's lease is revoked:", second.is_acquired())
with client().lock("jobs") as third:
    print("third is inside:", third.is_acquired())
print("third is outside:", third.is_acquired())

lease = client().lease(100)
lock_client = client()
print("lease:", lease.granted_ttl, len(lease.keys), lease.remaining_ttl > 90)
lease.revoke()
print("revoked lease:", lease.remaining_ttl)
