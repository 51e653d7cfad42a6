"""A plugin of pytest that starts three sites of Meshlock, and spreads the calls of clients of etcd over them.

    MESHLOCK_OTHERS_CLIENT=etcd3 MESHLOCK=path/of/meshlock MESHLOCK_OTHERS=interop/others pytest -p spread …

The tests name one address; clients that gRPC connects get all three, whose calls gRPC sends in turn, and clients of etcd's gateway
send each call to the next address.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile

import pytest

# Calls go to all addresses in turn; without an authority of its own a call would name all of them as its host.
SPREAD = [("grpc.lb_policy_name", "round_robin"), ("grpc.default_authority", "localhost")]

# Variables by which the tests of python-etcd3, aetcd and etcd3gw are told the address.
VARIABLES = ["PYTHON_ETCD_HTTP_URL", "TEST_ETCD_HTTP_URL", "TOOZ_TEST_HTTP_URL"]


def several(addresses):
    """Returns host and port whose combination `host:port` names all addresses for gRPC."""
    host, _, port = ("ipv4:" + ",".join(addresses)).rpartition(":")
    return host, port


def spread_etcd3(patch, addresses):
    import etcd3

    host, port = several(addresses)
    one = etcd3.client

    def client(timeout=None, **_):
        return one(host=host, port=port, timeout=timeout, grpc_options=SPREAD)

    patch.setattr(etcd3, "client", client)


def spread_aetcd(patch, addresses):
    import aetcd

    one = aetcd.Client

    class Client(one):
        def __init__(self, **given):
            host, port = several(addresses)
            options = dict(given.get("options") or {}, **dict(SPREAD))
            super().__init__(**dict(given, host=host, port=port, options=options))

    patch.setattr(aetcd, "Client", Client)


def spread_etcd3gw(patch, addresses):
    from etcd3gw.client import Etcd3Client

    turns = itertools.cycle(addresses)
    patch.setattr(Etcd3Client, "base_url", property(lambda self: f"http://{next(turns)}"))


SPREADS = {"etcd3": spread_etcd3, "aetcd": spread_aetcd, "etcd3gw": spread_etcd3gw}


def without_cleaning(patch):
    """Lets `etcdctl` do nothing: the tests call it only to delete all keys of a server that they share, and here each has its own."""
    directory = tempfile.TemporaryDirectory()
    program = os.path.join(directory.name, "etcdctl")
    with open(program, "w") as script:
        script.write("#!/bin/sh\necho '{}'\n")
    os.chmod(program, 0o755)
    patch.setenv("PATH", directory.name + os.pathsep + os.environ["PATH"])
    return directory


def pytest_configure(config):
    """Starts the sites: some tests look at the address when they are imported."""
    script = os.path.join(os.environ["MESHLOCK_OTHERS"], "sites.py")
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    config.sites, config.patch = process, pytest.MonkeyPatch()
    addresses = json.loads(process.stdout.readline())["addresses"]
    for variable in VARIABLES:
        config.patch.setenv(variable, f"http://{addresses[0]}")
    SPREADS[os.environ["MESHLOCK_OTHERS_CLIENT"]](config.patch, addresses)
    config.cleaning = without_cleaning(config.patch)


def pytest_unconfigure(config):
    config.patch.undo()
    config.sites.stdin.close()
    config.sites.wait()
    config.cleaning.cleanup()
