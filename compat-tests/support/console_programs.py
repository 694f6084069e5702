"""Consoles that others made, as child processes: started with their own configuration, asked by HTTP, their log read.

A console listens on loopback and never outlives this process. It is built elsewhere; the tests get its path.
"""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from oracle import free_port
from oracle.process import HOST, die_with_parent
from support.waiting import attempts

START_S = 180.0
ANSWER_S = 60.0
JSON = "application/json"


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an answer too."""


class ConsoleProgram:
    """One console, used as a context manager. ``ready`` is a path that it answers with 200 once it serves."""

    def __init__(self, command: Sequence[str], port: int, ready: str, directory: Path) -> None:
        self.command, self.port, self.ready, self.directory = command, port, ready, directory
        self._opener = urllib.request.build_opener(_KeepRedirects)

    def __enter__(self) -> Self:
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        try:
            self._wait_until_it_serves()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def _output(self) -> Path:
        return self.directory / "console.log"

    @property
    def log(self) -> str:
        """All that it has written."""
        return self._output.read_text(errors="replace")

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def show(self, path: str, **query: Any) -> Any:
        """An answer of 200 in JSON, as what it says."""
        answer = self.get(path, **query)
        assert answer.status == 200, f"{path}: {answer.status} {answer.text}"
        return answer.json

    def ask(self, method: str, path: str, body: Any = None, kind: str = JSON, accept: str = JSON) -> Answer:
        """``body`` is bytes, or is sent as JSON."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", sent, method=method)
        request.add_header("Accept", accept)
        if sent is not None:
            request.add_header("Content-Type", kind)
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as answer:
            return Answer(answer.code, answer.read())

    def _wait_until_it_serves(self) -> None:
        for _ in attempts(lambda: f"an answer:\n{self.log}", START_S, every_s=0.2):
            with suppress(OSError):
                if self.get(self.ready).status == 200:
                    break
            assert self._process.poll() is None, f"it ended:\n{self.log}"

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


def kafdrop(jar: Path, bootstrap_servers: str, directory: Path) -> ConsoleProgram:
    port = free_port()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
    settings = {
        "server.address": HOST,
        "server.port": port,
        "management.server.port": port,
        "kafka.brokerConnect": bootstrap_servers,
        "message.sendEnabled": "true",
    }
    words = [f"--{key}={value}" for key, value in settings.items()]
    return ConsoleProgram([java, "-Xmx256m", "-jar", str(jar), *words], port, "/actuator/health", directory)


def redpanda_console(program: Path, bootstrap_servers: str, directory: Path) -> ConsoleProgram:
    port = free_port()
    settings: Mapping[str, Any] = {
        "kafka": {"brokers": bootstrap_servers.split(",")},
        "server": {"listenAddress": HOST, "listenPort": port},
        "serveFrontend": False,
        "analytics": {"enabled": False},
    }
    file = directory / "console.yaml"
    file.write_text(json.dumps(settings))
    return ConsoleProgram([str(program), f"--config.filepath={file}"], port, "/admin/health", directory)
