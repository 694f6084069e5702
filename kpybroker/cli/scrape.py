"""Reading a broker's second port for ``kpybroker doctor``: its metrics, and its time.

A page is read over a plain socket: `http.client` takes longer to load than a page takes to come. Only the lines of
metrics that are asked for are parsed.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ssl import SSLContext

READ_TIMEOUT_S = 5.0
MAX_BYTES = 64 * 1024 * 1024
MAX_HEAD_BYTES: Final = 64 * 1024
READ_BYTES: Final = 256 * 1024
_USUAL_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STATUS = re.compile(rb"HTTP/1\.[0-9]+ ([0-9]{3})(?![0-9])")
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
        from base64 import b64encode

        return f"Basic {b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


def _default_context() -> "SSLContext":
    from ssl import create_default_context

    return create_default_context()


class Way(NamedTuple):
    """The way to pages behind https or a login."""

    context: "Callable[[], SSLContext]" = _default_context
    login: PageLogin | None = None


class PageRefused(Exception):
    """A page is there, and is not shown. The message says why."""


class _SpeaksTls(Exception):
    """A port says that it speaks https, or ends plain HTTP."""


class _NoPage(Exception):
    """A port does not answer as HTTP does."""


class MetricsPage:
    """A metrics page. ``date`` is the server's time as it sent it, empty if it sent none."""

    def __init__(
        self, text: str, date: str = "", place: tuple[str, int] = ("", 0), read_s: float = 0.0, took_s: float = 0.0
    ) -> None:
        """``read_s`` is the time of reading, of ``time.monotonic``, and ``took_s`` how long that took."""
        self._text = f"\n{text}\n"
        self._date = date
        self.place = place
        self.read_s = read_s
        self.took_s = took_s

    @property
    def date_s(self) -> float | None:
        """The server's time; None if it sent none."""
        usual = _USUAL_DATE.fullmatch(self._date)
        if usual is not None and usual[2] in _MONTHS:
            day, year, hour, minute, second = (int(usual[part]) for part in (1, 3, 4, 5, 6))
            with suppress(ValueError):
                return datetime(year, _MONTHS.index(usual[2]) + 1, day, hour, minute, second, tzinfo=UTC).timestamp()
        from email.utils import parsedate_to_datetime  # takes longer to load than a page takes to come

        try:
            return parsedate_to_datetime(self._date).timestamp() if self._date else None
        except ValueError:
            return None

    def named(self, name: str) -> Iterator[MetricSample]:
        """The samples of a metric."""
        return (each for each in self.named_from(name) if each.name == name)

    def named_from(self, prefix: str) -> Iterator[MetricSample]:
        """The samples of metrics whose names begin like this."""
        start = self._text.find(f"\n{prefix}")
        while start >= 0:
            end = self._text.find("\n", start + 1)
            if end < 0:
                return
            sample = parsed(self._text[start + 1 : end])
            if sample is not None:
                yield sample
            start = self._text.find(f"\n{prefix}", end)

    def by_labels(self, name: str, *labels: str, **wanted: str) -> dict[tuple[str, ...], float]:
        """The values of a metric by some of its labels, added up, where the other labels have the wanted values."""
        found: dict[tuple[str, ...], float] = {}
        for each in self.named(name):
            if all(each.labels.get(label) == value for label, value in wanted.items()):
                key = tuple(each.labels.get(label, "") for label in labels)
                found[key] = found.get(key, 0.0) + each.value
        return found

    def value(self, name: str) -> float | None:
        """The one value of a metric without labels; None if there is none."""
        return next((each.value for each in self.named(name)), None)


class _Answer(NamedTuple):
    """An answer of an HTTP server."""

    status: int
    headers: Mapping[str, str]
    """By name in small letters."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def fetch(host: str, port: int, connect_timeout_s: float, way: Way) -> MetricsPage | None:
    """The metrics page of a port; None if no server answers there with one. A server that accepts the connection may
    take longer. https is tried where a port ends plain HTTP, or says so. Raises PageRefused."""
    try:
        try:
            return _asked((host, port), connect_timeout_s, None, way)
        except (_SpeaksTls, ConnectionResetError):
            return _asked((host, port), connect_timeout_s, way.context(), way)
    except (OSError, _NoPage, _SpeaksTls) as error:
        refusal = _refusal_of(error)
        if refusal is None:
            return None
        raise PageRefused(refusal) from None


def _refusal_of(error: Exception) -> str | None:
    """The reason to say where a certificate is not accepted; None for other errors."""
    why = getattr(error, "verify_message", None)  # of ssl.SSLCertVerificationError, without loading ssl
    if why is None:
        return None
    return (
        f"its certificate is not accepted ({why}); name the issuer by ssl.truststore.location in the file of "
        "--command-config"
    )


def _asked(
    place: tuple[str, int], connect_timeout_s: float, context: "SSLContext | None", way: Way
) -> MetricsPage | None:
    """The page, with the login if it demands one, behind TLS with a ``context``. A password is sent without TLS within
    this machine alone."""
    began_s = time.monotonic()
    answer = _answer(place, connect_timeout_s, context)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        if way.login is None:
            raise PageRefused("it demands a login; name a file with a line name=password by --http-login")
        if context is None and not is_this_machine(place[0]):
            raise PageRefused("it demands a login without TLS; a password is sent so within this machine alone")
        answer = _answer(place, connect_timeout_s, context, f"Authorization: {way.login.header}\r\n")
    status = answer.status
    if way.login is not None and status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE):
        raise PageRefused(f"it refuses the login of {way.login.name!r}: {answer.text.strip()[:200]}")
    if way.login is not None and status == HTTPStatus.FORBIDDEN:
        raise PageRefused(f"{way.login.name!r} may not read it: that needs DESCRIBE on the cluster")
    if status == HTTPStatus.BAD_REQUEST and "https" in answer.text.lower() and context is None:
        raise _SpeaksTls
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST):
        raise PageRefused(f"it refuses: {answer.text.strip()[:200]}")
    if status != HTTPStatus.OK:
        return None
    read_s = time.monotonic()
    return MetricsPage(answer.text, answer.headers.get("date", ""), place, read_s, read_s - began_s)


def _answer(
    place: tuple[str, int], connect_timeout_s: float, context: "SSLContext | None", further: str = ""
) -> _Answer:
    """The answer to a GET, in HTTP 1.0: it ends with the connection, or where it says. Raises _SpeaksTls if it is not
    HTTP, _NoPage if it is cut short, OSError."""
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    asked = f"GET /metrics HTTP/1.0\r\nHost: {host}:{place[1]}\r\nAccept: text/plain\r\n{further}\r\n"
    with socket.create_connection(place, connect_timeout_s) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return _read(plain, asked)
        with context.wrap_socket(plain, server_hostname=place[0]) as encrypted:
            return _read(encrypted, asked)


def _read(connection: socket.socket, asked: str) -> _Answer:
    connection.settimeout(READ_TIMEOUT_S)
    connection.sendall(asked.encode("latin-1"))
    received, head, length = bytearray(), -1, MAX_BYTES
    headers: dict[str, str] = {}
    while len(received) < head + 4 + length:
        piece = connection.recv(READ_BYTES)
        if not piece:
            break
        received += piece
        if head < 0:
            head = received.find(b"\r\n\r\n")
            if head < 0 and len(received) > MAX_HEAD_BYTES:
                raise _NoPage
            if head >= 0:
                headers = _headers(bytes(received[:head]))
                length = min(_length(headers), MAX_BYTES)
    status = _STATUS.match(received)
    if status is None:
        raise _SpeaksTls
    body = bytes(received[head + 4 : head + 4 + length])
    if head < 0 or ("content-length" in headers and len(body) < length):
        raise _NoPage
    return _Answer(int(status[1]), headers, body)


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _length(headers: Mapping[str, str]) -> int:
    """The length of the body; the most that is read if the server does not say it."""
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() else MAX_BYTES


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine's loopback."""
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parsed(line: str) -> MetricSample | None:
    """The sample of a line in Prometheus' text format; None if it is not one."""
    match = _LINE.fullmatch(line.rstrip("\r"))
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    labels = {name: _ESCAPED.sub(_unescaped, found) for name, found in _LABEL.findall(match[2] or "")}
    return MetricSample(match[1], labels, value)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
