"""Nodes that share their sessions, and whose behaviour a test chooses."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import unquote

import meshlock

#: Answers a request otherwise than a healthy node would; returns whether it did.
Behaviour = Callable[["Request"], bool]


class FakeCluster:
    """The sessions, and the nodes that know them."""

    def __init__(self, safe_ms: int, nodes: int) -> None:
        self.safe_ms = safe_ms
        self.sessions: Dict[str, List[str]] = {}
        self.deleted: List[str] = []
        self.opened = 0
        self.nodes = [FakeNode(self) for _ in range(nodes)]

    def places(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def client(self, **options: Any) -> meshlock.Client:
        return meshlock.Client(self.places(), retry_for=20, **options)

    def async_client(self, **options: Any) -> meshlock.AsyncClient:
        return meshlock.AsyncClient(self.places(), retry_for=20, **options)

    def end(self) -> None:
        for node in self.nodes:
            node.end()


class FakeNode(ThreadingHTTPServer):
    """One of them."""

    daemon_threads = True

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.cluster = cluster
        self.behaviour: Optional[Behaviour] = None
        #: What it was asked beside whether it is ready, and how often it was asked that.
        self.seen: List[str] = []
        self.asked = 0
        self.connections: List[Any] = []
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def end(self) -> None:
        if not self.over.is_set():
            self.over.set()
            self.shutdown()
            self.server_close()
            for connection in self.connections:
                connection.close()


class Request(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: FakeNode

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            # The test has ended the node.
            pass

    def log_message(self, *_: Any) -> None:
        pass

    def say(self, status: int, answer: Any) -> bool:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        return True

    def refuse(self, status: int, code: str) -> bool:
        return self.say(status, {"code": code, "message": f"the node says {code}"})

    def answer(self) -> None:
        cluster = self.server.cluster
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_question = self.path == "/readyz"
        if is_question:
            self.server.asked += 1
        else:
            self.server.seen.append(f"{self.command} {self.path}")
        if self.server.behaviour is not None and self.server.behaviour(self):
            return
        if is_question:
            # If a node before it is well, that one shall be the nearest, however fast both are.
            before = cluster.nodes[: cluster.nodes.index(self.server)]
            if any(node.behaviour is None and not node.over.is_set() for node in before):
                holds_back(self)
            else:
                self.say(200, {})
            return
        parts = self.path.split("/")[1:]
        if self.path == "/v1/sessions":
            cluster.opened += 1
            session = f"s{cluster.opened}"
            cluster.sessions[session] = []
        elif parts[1] == "sessions":
            session = parts[2]
            if session not in cluster.sessions:
                self.refuse(404, "no_session")
                return
            if self.command == "DELETE":
                del cluster.sessions[session]
                cluster.deleted.append(session)
                self.say(200, {})
                return
        else:
            session = json.loads(body)["session"]
            cluster.sessions[session] = [unquote(parts[2])]
            # Larger than what a float can hold.
            self.say(200, {"session": session, "fence": "9007199254740993", "slot": 0, "safe_ms": cluster.safe_ms})
            return
        safe = cluster.safe_ms
        self.say(200, {"session": session, "left_ms": 2 * safe, "safe_ms": safe, "locks": cluster.sessions[session]})

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 (names that the base class looks for)


def leaves(request: Request) -> bool:
    return request.refuse(503, "unavailable")


def holds_back(request: Request) -> bool:
    """Answers nothing until the client has closed the connection."""
    request.close_connection = True
    request.rfile.read(1)
    return True


def hangs(request: Request) -> bool:
    request.server.over.wait()
    return True


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    """Waits until something is so, and no longer than a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, f"not within a minute: {what}"
        threading.Event().wait(0.005)
