"""The examples of docs/fences.md: a writer with a smaller fence is refused by what it writes to."""

import importlib.util
import re
import sqlite3
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Optional, Tuple
from unittest import mock

PACKAGE = Path(__file__).parent.parent


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PACKAGE / "examples" / "fences" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rows, store, files = example("rows"), example("store"), example("files")

#: Too large for a float, as real fences may be.
OLD, NEW = 2**53 + 1, 2**53 + 2


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.addCleanup(self.database.close)
        self.database.executescript(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0);"
            "CREATE TABLE fences (lock TEXT PRIMARY KEY, fence INTEGER NOT NULL);"
            "INSERT INTO account (id, balance) VALUES (1, 100), (2, 100);"
        )

    def balances(self) -> Any:
        return [balance for (balance,) in self.database.execute("SELECT balance FROM account ORDER BY id")]

    def test_a_row_refuses_a_smaller_fence(self) -> None:
        rows.add_to_balance(self.database, 1, 5, OLD)
        rows.add_to_balance(self.database, 1, 5, NEW)
        rows.add_to_balance(self.database, 1, 5, NEW)
        with self.assertRaises(rows.StaleFence):
            rows.add_to_balance(self.database, 1, 5, OLD)
        self.assertEqual(self.balances(), [115, 100])

    def test_a_transaction_with_a_smaller_fence_changes_nothing(self) -> None:
        rows.transfer(self.database, "bank", OLD, 1, 2, 10)
        rows.transfer(self.database, "bank", NEW, 1, 2, 10)
        with self.assertRaises(rows.StaleFence):
            rows.transfer(self.database, "bank", OLD, 1, 2, 10)
        rows.transfer(self.database, "other", OLD, 2, 1, 1)
        self.assertEqual(self.balances(), [81, 119])

    def test_the_document_has_the_same_statement_for_postgresql(self) -> None:
        document = (PACKAGE.parent.parent / "docs" / "fences.md").read_text()
        (block,) = re.findall(r"```sql\n(-- PostgreSQL.*?)```", document, re.DOTALL)
        statements = [" ".join(text.split()) for text in re.sub(r"--.*", "", block).split(";") if text.strip()]
        source = (PACKAGE / "examples" / "fences" / "rows.py").read_text()
        ours = re.sub(r'"\s+"', "", source)
        for statement in statements:
            for place, name in (("$1", ":fence"), ("$2", ":account"), ("$3", ":amount"), ("$4", ":lock")):
                statement = statement.replace(place, name)
            self.assertIn(f'"{statement}"', ours)
        self.assertEqual(len(statements), 2)


class Store(BaseHTTPRequestHandler):
    """An object store with conditional writes, as S3 and others have them."""

    objects: Dict[str, Tuple[str, str]] = {}
    mutex = threading.Lock()
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, tag: Optional[str] = None, fence: str = "") -> None:
        self.send_response(status)
        if tag is not None:
            self.send_header("ETag", tag)
            self.send_header("x-amz-meta-fence", fence)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:  # noqa: N802 (a name that the base class looks for)
        found = self.objects.get(self.path)
        self.answer(404) if found is None else self.answer(200, *found)

    def do_PUT(self) -> None:  # noqa: N802
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.mutex:
            found = self.objects.get(self.path)
            tag = None if found is None else found[0]
            if self.headers.get("If-None-Match") == "*" and tag is not None:
                return self.answer(412)
            if "If-Match" in self.headers and self.headers["If-Match"] != tag:
                return self.answer(412)
            count = 0 if tag is None else int(tag.strip('"'))
            self.objects[self.path] = (f'"{count + 1}"', self.headers.get("x-amz-meta-fence", "0"))
            self.answer(200)


class Objects(unittest.TestCase):
    def setUp(self) -> None:
        Store.objects = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
        self.store = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def test_an_object_refuses_a_smaller_fence(self) -> None:
        store.put_fenced(self.store, "state", b"1", OLD)
        store.put_fenced(self.store, "state", b"2", NEW)
        store.put_fenced(self.store, "state", b"3", NEW)
        with self.assertRaises(store.StaleFence):
            store.put_fenced(self.store, "state", b"4", OLD)
        self.assertEqual(Store.objects["/state"], ('"3"', str(NEW)))

    def test_a_writer_that_is_overtaken_between_looking_and_writing_is_refused(self) -> None:
        for before in (False, True):
            with self.subTest(before=before):
                Store.objects = {}
                if before:
                    store.put_fenced(self.store, "state", b"0", OLD - 1)
                look, overtaken = store.head, []

                def slow(*place: str) -> Any:
                    seen = look(*place)
                    if not overtaken:
                        # Here this program is suspended, and another one gets the lock.
                        overtaken.append(True)
                        store.put_fenced(self.store, "state", b"new", NEW)
                    return seen

                with mock.patch.object(store, "head", slow), self.assertRaises(store.StaleFence):
                    store.put_fenced(self.store, "state", b"old", OLD)
                self.assertEqual(Store.objects["/state"][1], str(NEW))


class Files(unittest.TestCase):
    def test_a_file_refuses_a_smaller_fence(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "state"
            files.write_fenced(file, b"1", OLD)
            files.write_fenced(file, b"2", NEW)
            files.write_fenced(file, b"3", NEW)
            with self.assertRaises(files.StaleFence):
                files.write_fenced(file, b"4", OLD)
            self.assertEqual(file.read_bytes(), b"3")
            self.assertEqual(sorted(each.name for each in Path(directory).iterdir()), ["state", "state.fence"])


if __name__ == "__main__":
    unittest.main()
