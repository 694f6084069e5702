"""Reading a broker's second port for ``kpybroker doctor``: its metrics, and its time."""

import re
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import NamedTuple

READ_TIMEOUT_S = 5.0
MAX_BYTES = 64 * 1024 * 1024
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? ([^ ]+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class MetricSample(NamedTuple):
    """A line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


class PageLogin(NamedTuple):
    """A user of second ports (``kpybroker.http.users``)."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.name!r}, [hidden])"

    @property
    def header(self) -> str:
        """The value of ``Authorization``."""
        return f"Basic {b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


class Way(NamedTuple):
    """The way to pages behind https or a login."""

    context: Callable[[], ssl.SSLContext] = ssl.create_default_context
    login: PageLogin | None = None


class PageRefused(Exception):
    """A page is there, and is not shown. The message says why."""


class _SpeaksTls(Exception):
    """A port says that it speaks https."""


class MetricsPage(NamedTuple):
    """A metrics page. ``date_s`` is the server's time, None if it sent none."""

    samples: list[MetricSample]
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


def fetch(host: str, port: int, connect_timeout_s: float, way: Way) -> MetricsPage | None:
    """The metrics page of a port; None if no server answers there with one. A server that accepts the connection may
    take longer. https is tried where a port ends plain HTTP, or says so. Raises Refused."""
    try:
        try:
            connection = HTTPConnection(host, port, timeout=connect_timeout_s)
            return _asked(connection, way, is_safe=is_this_machine(host))
        except (_SpeaksTls, BadStatusLine, ConnectionResetError):  # http.client's RemoteDisconnected is the last two
            connection = HTTPSConnection(host, port, timeout=connect_timeout_s, context=way.context())
            return _asked(connection, way, is_safe=True)
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not accepted ({error.verify_message})"
        raise PageRefused(
            f"{why}; name the issuer by ssl.truststore.location in the file of --command-config"
        ) from None
    except (OSError, HTTPException):
        return None


def _asked(connection: HTTPConnection, way: Way, *, is_safe: bool) -> MetricsPage | None:
    """The page, with the login if it demands one. ``is_safe``: whether a password may be sent."""
    try:
        connection.connect()
        connection.sock.settimeout(READ_TIMEOUT_S)
        status, text, date = _answer(connection)
        if status == HTTPStatus.UNAUTHORIZED:
            if way.login is None:
                raise PageRefused("it demands a login; name a file with a line name=password by --http-login")
            if not is_safe:
                raise PageRefused("it demands a login without TLS; a password is sent so within this machine alone")
            status, text, date = _answer(connection, {"Authorization": way.login.header})
    finally:
        connection.close()
    if way.login is not None and status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE):
        raise PageRefused(f"it refuses the login of {way.login.name!r}: {text.strip()[:200]}")
    if way.login is not None and status == HTTPStatus.FORBIDDEN:
        raise PageRefused(f"{way.login.name!r} may not read it: that needs DESCRIBE on the cluster")
    if status == HTTPStatus.BAD_REQUEST and "https" in text.lower() and not isinstance(connection, HTTPSConnection):
        raise _SpeaksTls
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST):
        raise PageRefused(f"it refuses: {text.strip()[:200]}")
    if status != HTTPStatus.OK:
        return None
    return MetricsPage(parse(text), _date_of(date), (connection.host, connection.port), time.monotonic())


def _answer(connection: HTTPConnection, headers: Mapping[str, str] | None = None) -> tuple[int, str, str | None]:
    connection.request("GET", "/metrics", headers={"Accept": "text/plain", **(headers or {})})
    answer = connection.getresponse()
    return answer.status, answer.read(MAX_BYTES).decode("utf-8", "replace"), answer.getheader("Date")


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _date_of(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def parse(text: str) -> list[MetricSample]:
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
        samples.append(MetricSample(match[1], labels, value))
    return samples


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
