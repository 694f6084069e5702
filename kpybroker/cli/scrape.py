"""Reading a broker's second port for ``kpybroker doctor``: its metrics, and its time."""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

READ_TIMEOUT_S = 5.0
MAX_BYTES = 64 * 1024 * 1024
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? ([^ ]+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """A line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


class Page(NamedTuple):
    """A metrics page. ``date_s`` is the server's time, None if it sent none."""

    samples: list[Sample]
    date_s: float | None
    place: tuple[str, int] = ("", 0)
    read_s: float = 0.0
    """The time of reading, of ``time.monotonic``."""

    def by_labels(self, name: str, *labels: str, **wanted: str) -> dict[tuple[str, ...], float]:
        """The values of a metric by some of its labels, added up, where the other labels have the wanted values."""
        found: dict[tuple[str, ...], float] = {}
        for each in self.samples:
            if each.name == name and all(each.labels.get(label) == value for label, value in wanted.items()):
                key = tuple(each.labels.get(label, "") for label in labels)
                found[key] = found.get(key, 0.0) + each.value
        return found

    def value(self, name: str) -> float | None:
        """The one value of a metric without labels; None if there is none."""
        return next((each.value for each in self.samples if each.name == name), None)


def fetch(host: str, port: int, connect_timeout_s: float) -> Page | None:
    """The metrics page of a port; None if no server answers there with one. A server that accepts the connection may
    take longer."""
    connection = HTTPConnection(host, port, timeout=connect_timeout_s)
    try:
        connection.connect()
        connection.sock.settimeout(READ_TIMEOUT_S)
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        text = answer.read(MAX_BYTES).decode("utf-8", "replace")
        if answer.status != 200:
            return None
        return Page(parse(text), _date_of(answer.getheader("Date")), (host, port), time.monotonic())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _date_of(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def parse(text: str) -> list[Sample]:
    """The samples of a page in Prometheus' text format. Lines that are not samples are skipped."""
    samples = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {name: _ESCAPED.sub(_unescaped, found) for name, found in _LABEL.findall(match[2] or "")}
        samples.append(Sample(match[1], labels, value))
    return samples


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
