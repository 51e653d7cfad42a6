"""Runs tests of Node's etcd3 with mocha, against three sites of Meshlock.

    python3 run.py list FILE…           prints the whole title of each test in these files
    python3 run.py test TITLE FILE…     runs one test, and prints `passed`, `failed` or `skipped` as the last line

It is started in the directory of the client's sources, where its tests and mocha are installed. `MESHLOCK` and `MESHLOCK_OTHERS` say
where Meshlock and the folder `interop/others` are.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

# How long a test may take, in seconds.
TEST_TIMEOUT = 180

SET_UP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "set_up.js")


def mocha(options, files, **more):
    """Runs mocha, and returns what it reports: without the client's own configuration, which starts nothing but its own set-up."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = ["node", "node_modules/mocha/bin/mocha.js", "--no-config", "--exit", "--timeout", "10000"]
        command += ["--require", SET_UP, "--reporter", "json", "--reporter-option", f"output={report.name}"]
        subprocess.run([*command, *options, *files], timeout=TEST_TIMEOUT, stdout=sys.stderr, **more)
        return json.load(report)


def outcome(report, title):
    """Returns what a test came to. One that passed and could not be cleaned up after has failed."""
    titles = {kind: [test["fullTitle"] for test in report[kind]] for kind in ["passes", "failures", "pending"]}
    if titles["passes"] == [title] and not titles["failures"]:
        return "passed"
    return "skipped" if titles["pending"] == [title] and not titles["failures"] else "failed"


def run(title, files):
    sys.path.insert(0, os.environ["MESHLOCK_OTHERS"])
    from sites import running

    with running(3) as sites:
        environment = dict(os.environ, MESHLOCK_ADDRESSES=",".join(sites.addresses))
        report = mocha(["--grep", f"^{re.escape(title)}$"], files, env=environment)
    for failure in report["failures"]:
        print(f"{failure['fullTitle']}: {failure['err'].get('stack')}", file=sys.stderr)
    return outcome(report, title)


def main():
    what, *rest = sys.argv[1:]
    if what == "list":
        for test in mocha(["--dry-run"], rest)["tests"]:
            print(test["fullTitle"])
    else:
        title, *files = rest
        print(run(title, files))


if __name__ == "__main__":
    main()
