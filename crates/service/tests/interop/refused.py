"""What python-etcd3 tells its user of calls that Meshlock refuses, line by line: it keeps locks, not data."""

import sys

import etcd3
import grpc

host, port = sys.argv[1].rsplit(":", 1)
client = etcd3.client(host=host, port=int(port), timeout=20)


class Lease:
    """A lease that nobody has granted."""

    id = 4711


def put_if_absent(lease=None):
    is_absent = client.transactions.create("config") == 0
    return client.transaction([is_absent], [client.transactions.put("config", "1", lease)], [])


calls = [
    ("transaction without a lease", put_if_absent),
    ("transaction with an unknown lease", lambda: put_if_absent(Lease())),
    ("put", lambda: client.put("config", "1")),
    ("get of all", lambda: list(client.get_all())),
    ("compact", lambda: client.compact(1)),
    ("a new member", lambda: client.add_member(["http://127.0.0.1:1"])),
]
for name, call in calls:
    try:
        print(f"{name}: {call()}")
    except grpc.RpcError as error:
        print(f"{name}: {error.code().name}: {error.details()}")
