"""A real Prometheus, of Debian's package, that scrapes nodes on loopback and answers queries.

`make prometheus` fetches it into ``build/``; nothing is installed.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from oracle import free_port
from oracle.process import die_with_parent
from support.waiting import eventually

FETCHED = Path(__file__).resolve().parents[2] / "build" / "prometheus" / "usr" / "bin"

JOB = "kpybroker"


def program(name: str) -> str:
    """``prometheus`` or ``promtool``; the test is skipped where it is not there."""
    found = shutil.which(name) or shutil.which(name, path=str(FETCHED))
    if found is None:
        pytest.skip(f"{name} is not there: make prometheus fetches Debian's package")
    return found


class Prometheus:
    """Scrapes addresses, which have names, as one job. Use as a context manager."""

    def __init__(self, directory: Path, addresses: Mapping[str, str], scrape_interval: str) -> None:
        targets = [{"targets": [each], "labels": {"instance": name}} for name, each in addresses.items()]
        settings = {"global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval}}
        config = directory / "prometheus.yml"
        config.write_text(
            json.dumps({**settings, "scrape_configs": [{"job_name": JOB, "static_configs": targets}]})
        )  # JSON is YAML
        self.log = directory / "prometheus.log"
        self.address = f"http://127.0.0.1:{free_port()}"
        words = {
            "config.file": config,
            "storage.tsdb.path": directory / "tsdb",
            "web.listen-address": self.address.removeprefix("http://"),
        }
        command = [program("prometheus"), *(f"--{name}={value}" for name, value in words.items())]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)

    def __enter__(self) -> "Prometheus":
        try:
            eventually(self._is_ready, "Prometheus to start", within_s=60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log.read_text(errors="replace")
        try:
            with urlopen(f"{self.address}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an answer; parameters are as in Prometheus' HTTP API."""
        with urlopen(f"{self.address}/api/v1/{path}?{urlencode(parameters, doseq=True)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def now(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression at this moment."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found
