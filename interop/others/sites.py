"""Three sites of Meshlock for the tests of others, as one process that is told what to do.

    MESHLOCK=path/of/meshlock python3 sites.py [SITES]

It prints one line of JSON, `{"names": [...], "addresses": [...]}`, when all sites take part, and then obeys lines on its standard
input, each of which it answers with `ok` when that is done:

    stop 1 2     ends the sites 1 and 2 (the second and the third) in the ordinary way
    start 1 2    starts them again and waits until they are ready

It ends with its input, and all sites with it. The sites have the default settings, no certificates, and memory only for this run.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

# How long a site may take to start, and the cluster to be complete.
READY_WITHIN = 60.0


def free_ports(count):
    """Returns ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Sites:
    """The sites of one cluster on this machine."""

    def __init__(self, count, directory):
        self.directory = directory
        self.names = [chr(ord("a") + at) for at in range(count)]
        ports = free_ports(2 * count)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
        self.processes = [None] * count
        sites = ", ".join(
            f"{{ name = '{name}', address = '127.0.0.1:{port}' }}" for name, port in zip(self.names, ports[count:])
        )
        for name in self.names:
            with open(self.path(f"{name}.toml"), "w") as config:
                config.write(
                    f"site = '{name}'\ndata = 'data-{name}'\nsocket = '{name}.sock'\ntls = 'off'\nsites = [{sites}]\n"
                )

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, at):
        """Starts a site and does not wait for it."""
        directories = ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "MESHLOCK_ROOT"]
        environment = dict(os.environ, **{name: self.directory for name in directories})
        config, api = self.path(f"{self.names[at]}.toml"), self.addresses[at]
        self.processes[at] = subprocess.Popen(
            [os.environ["MESHLOCK"], "node", "--config", config, "--api", api],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=open(self.path(f"{self.names[at]}.log"), "a"),
            env=environment,
            text=True,
        )

    def until_ready(self, at):
        for line in self.processes[at].stdout:
            if line.startswith(f"{self.names[at]} is ready"):
                return
        raise SystemExit(f"site {self.names[at]} ended:\n{open(self.path(self.names[at] + '.log')).read()}")

    def until_complete(self):
        """Waits until all running sites are members as the first of them knows it."""
        running = [name for name, process in zip(self.names, self.processes) if process]
        asks = [os.environ["MESHLOCK"], "site", "list", "--json", "--socket", self.path(f"{running[0]}.sock")]
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline:
            said = subprocess.run(asks, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if said.returncode == 0:
                if [site["site"] for site in json.loads(said.stdout)["sites"]] == running:
                    return
            time.sleep(0.05)
        raise SystemExit(f"the sites {running} do not become one cluster within {READY_WITHIN} s")

    def stop(self, those, how=signal.SIGTERM):
        """Ends sites, all at once."""
        running = [self.processes[at] for at in those if self.processes[at]]
        for at in those:
            self.processes[at] = None
        for process in running:
            process.send_signal(how)
        for process in running:
            process.wait()
            process.stdout.close()


@contextlib.contextmanager
def running(count):
    """Gives sites that all take part, and ends them afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        sites = Sites(count, directory)
        try:
            for at in range(count):
                sites.start(at)
            for at in range(count):
                sites.until_ready(at)
            sites.until_complete()
            yield sites
        finally:
            sites.stop(range(count), signal.SIGKILL)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with running(count) as sites:
        print(json.dumps({"names": sites.names, "addresses": sites.addresses}), flush=True)
        for line in sys.stdin:
            order, *numbers = line.split()
            those = [int(number) for number in numbers]
            if order == "stop":
                sites.stop(those)
            elif order == "start":
                for at in those:
                    sites.start(at)
                for at in those:
                    sites.until_ready(at)
            else:
                raise SystemExit(f"'{order}' is neither 'stop' nor 'start'")
            print("ok", flush=True)


if __name__ == "__main__":
    main()
