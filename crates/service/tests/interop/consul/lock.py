"""What python-consul2 shows its user of sessions and locks, line by line."""

import sys
import threading

import consul

host, port = sys.argv[1].rsplit(":", 1)


def client():
    return consul.Consul(host=host, port=int(port))


first, second = client(), client()
print("there is a leader:", bool(first.status.leader()))
print("a node answers:", first.agent.self()["Config"]["NodeName"])

one = first.session.create(name="one", ttl=60, lock_delay=0)
two = second.session.create(name="two", ttl=60, lock_delay=0, behavior="delete")
index, info = first.session.info(one)
print("session:", int(index) > 0, info["Name"], info["TTL"], info["Behavior"], info["LockDelay"])
print("renewed:", first.session.renew(one)["ID"] == one)
_, sessions = first.session.list()
print("sessions:", sorted(session["Name"] for session in sessions))

index, nothing = first.kv.get("jobs")
print("nobody yet:", nothing, int(index) > 0)
print("first acquires:", first.kv.put("jobs", "first", acquire=one))
print("second acquires:", second.kv.put("jobs", "second", acquire=two))
print("second releases what it has not:", second.kv.put("jobs", "", release=two))
index, held = second.kv.get("jobs")
print("held:", held["Value"], held["Session"] == one, held["Flags"])

outcome = []


def wait_and_acquire(since):
    """The loop that every lock on Consul is."""
    while True:
        since, pair = second.kv.get("jobs", index=since, wait="20s")
        if pair is None or "Session" not in pair:
            if second.kv.put("jobs", "second", acquire=two):
                outcome.append(True)
                return


waiter = threading.Thread(target=wait_and_acquire, args=(index,))
waiter.start()
print("first releases:", first.kv.put("jobs", "", release=one))
waiter.join()
_, held = first.kv.get("jobs")
print("second has waited:", outcome[0], held["Value"], held["Session"] == two)

print("destroyed:", second.session.destroy(two))
print("free again:", first.kv.put("jobs", "first", acquire=one))
_, info = first.session.info(two)
print("gone:", info)
try:
    second.kv.put("jobs", "", acquire=two)
except consul.ConsulException as error:
    print("refused:", "invalid session" in str(error))
try:
    first.session.renew(two)
except consul.NotFound as error:
    print("not found:", "not found" in str(error))
