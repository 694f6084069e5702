"""HTTP requests and answers as routes see them, and how the bytes of a request are read.

Invariant: a declared length is compared with the bound before anything is read for it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from kpybroker.runtime.calls.principal import ANONYMOUS, Principal

MOST_BODY_BYTES: Final = 1024 * 1024
PLAIN: Final = "text/plain; charset=utf-8"
GET: Final = frozenset({"GET"})
JSON: Final = "application/json"
API: Final = "/api/"
"""The beginning of the paths whose answers are JSON."""


class Request(NamedTuple):
    """One request. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    principal: Principal = ANONYMOUS
    """The sender; ANONYMOUS where no login is demanded."""
    host: str = ""
    """The address of the sender."""


class HttpAnswer(NamedTuple):
    """One answer; its body is sent piece by piece."""

    status: HTTPStatus
    body: list[bytes]
    content_type: str = PLAIN
    headers: Mapping[str, str] = {}


class Route(NamedTuple):
    """The methods of a path, and what answers them."""

    answer: Callable[[Request], Awaitable[HttpAnswer]]
    methods: frozenset[str] = GET


class HttpRefused(Exception):
    """A request that no route sees: it is answered with this status and line, ``delay_s`` later."""

    def __init__(self, status: HTTPStatus, line: str, headers: Mapping[str, str] = {}, *, delay_s: float = 0.0) -> None:
        super().__init__(line)
        self.status = status
        self.headers = headers
        self.delay_s = delay_s


def refusal(refused: HttpRefused, path: str) -> HttpAnswer:
    """The answer to a refused request: one line, or JSON where programs ask for it."""
    if not path.startswith(API):
        return HttpAnswer(refused.status, [f"{refused}\n".encode()], headers=refused.headers)
    text = json.dumps({"error": str(refused)})
    return HttpAnswer(refused.status, [text.encode(), b"\n"], JSON, refused.headers)


def parse_head(head: bytes) -> Request:
    """A request without its body, from the bytes up to the empty line. Raises Refused."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise HttpRefused(HTTPStatus.BAD_REQUEST, "not HTTP/1")
    method, (path, _, query) = words[0].decode("latin-1"), words[1].decode("latin-1").partition("?")
    headers = {}
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return Request(method, path, query, headers)


def body_bytes(request: Request) -> int:
    """The length of a request's body; raises Refused if it is not told, or too long."""
    if "transfer-encoding" in request.headers:
        raise HttpRefused(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length")
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise HttpRefused(HTTPStatus.BAD_REQUEST, "the Content-Length is no number")
    if len(length) > len(str(MOST_BODY_BYTES)) or int(length) > MOST_BODY_BYTES:
        raise HttpRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY_BYTES} bytes")
    return int(length)
