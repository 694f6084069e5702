"""A schema registry on loopback: it answers with what a test gives it, or not before the test lets it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RegistryServer:
    """The answers by path, and what was asked."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self.elsewhere = ""
        """The address to which every request is sent on; empty for none."""
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.answers = threading.Event()
        self.answers.set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.logins.append(self.headers.get("Authorization"))
                registry.answers.wait(60)
                found = registry.schemas.get(self.path)
                if registry.elsewhere:
                    self.send_response(302)
                    self.send_header("Location", registry.elsewhere + self.path)
                else:
                    self.send_response(404 if found is None else 200)
                self.end_headers()
                if found is not None:
                    self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    made = RegistryServer()
    try:
        yield made
    finally:
        made.stop()
