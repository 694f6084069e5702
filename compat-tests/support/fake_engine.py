"""A Docker engine of which there is no more than its HTTP API for one container that does nothing, for tests.

``with fake_engine() as engine``: ``engine.url`` is for DOCKER_HOST, ``engine.created`` what was asked for.
"""

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KILLED_BY = {"SIGTERM": 143, "SIGKILL": 137}


class FakeEngine(ThreadingHTTPServer):
    """``log_text``: what the container has written; ``calls``: what was done to it, in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.created: dict[str, Any] = {}
        self.calls: list[str] = []
        self.status = "created"
        self.exit_code = 0
        self.ended = threading.Event()
        self.log_text = b"started\n"

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    """One request of the API."""

    server: FakeEngine

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quietly."""

    def _answer(self, body: Any, code: int = 200) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/version"):
            self._answer({"ApiVersion": "1.45"})
        elif path.endswith("/logs"):
            self._answer(struct.pack(">B3xI", 1, len(self.server.log_text)) + self.server.log_text)
        elif path.endswith("/json") and "/containers/" in path:
            state = {"Status": self.server.status, "ExitCode": self.server.exit_code, "Pid": 4711}
            self._answer({"Id": "c0ffee", "State": state, "Config": {"Tty": False}, "HostConfig": {"LogConfig": {}}})
        else:
            self._answer({"Id": "some"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        action = path.rpartition("/")[2]
        engine = self.server
        if action == "create":
            engine.created = json.loads(body)
            self._answer({"Id": "c0ffee", "Warnings": []}, 201)
            return
        if action == "wait":
            engine.ended.wait(20)
            self._answer({"StatusCode": engine.exit_code})
            return
        engine.calls.append(f"{action} {query}".strip())
        engine.status = {"start": "running", "pause": "paused", "unpause": "running"}.get(action, engine.status)
        if action == "kill":
            engine.status, engine.exit_code = "exited", KILLED_BY[query.partition("=")[2]]
            engine.ended.set()
        self._answer(b"", 204)

    def do_DELETE(self) -> None:
        self.server.calls.append("remove")
        self._answer(b"", 204)


@contextmanager
def fake_engine() -> Iterator[FakeEngine]:
    with FakeEngine() as engine:
        thread = threading.Thread(target=engine.serve_forever, daemon=True)
        thread.start()
        yield engine
        engine.shutdown()
