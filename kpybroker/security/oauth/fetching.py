"""One answer over HTTP, bounded in time and size. Blocks: for threads and commands, never for the event loop.

Redirects are followed to the same host only, and by GET only. Proxies, cookies and compression are not used. Neither
the body of a request nor its credentials are in an error.
"""

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socket import SHUT_RDWR, create_connection, socket
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urljoin

from kpybroker.security.oauth.endpoints import BadUrl, OAuthEndpoint, parse_endpoint

T = TypeVar("T")

LARGEST_BYTES: Final = 1 << 20
MOST_REDIRECTS: Final = 3
DEFAULT_TIMEOUT_MS: Final = 10_000
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_FINAL: Final = frozenset((*range(400, 408), *range(409, 416), 501, 505))
"""The answers after which Kafka does not ask again (``HttpJwtRetriever``)."""
_ERRORS: Final = 400
"""The least status whose body is shown: others may hold a token."""
_SHOWN_CHARS: Final = 200


class FetchFailed(Exception):
    """No usable answer. The message is one line without a secret. ``is_final``: another attempt would fail too."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class AnswerTimeouts(NamedTuple):
    """The longest times for one answer."""

    connect_ms: int = DEFAULT_TIMEOUT_MS
    total_ms: int = DEFAULT_TIMEOUT_MS
    """The time for sending and receiving, once it is connected."""


def fetch(
    endpoint: OAuthEndpoint,
    context: Callable[[], ssl.SSLContext],
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    limits: AnswerTimeouts = AnswerTimeouts(),  # noqa: B008 - a tuple of constants
) -> bytes:
    """The content of a URL; with ``body`` the answer to a POST. Raises FetchFailed. ``context`` is asked for https."""
    if endpoint.is_file:
        return read_file(endpoint.target)
    at = endpoint
    for _ in range(MOST_REDIRECTS + 1):
        status, content, location = _exchange(at, context, body, headers or {}, limits)
        if status in _REDIRECTS and body is None and location:
            at = _redirected(at, location)
            continue
        if status not in (200, 201):
            reported = f": {content[:_SHOWN_CHARS].decode(errors='replace')!a}" if content and status >= _ERRORS else ""
            raise FetchFailed(f"{endpoint.url} answers with status {status}{reported}", is_final=status in _FINAL)
        return content
    raise FetchFailed(f"{endpoint.url} redirects more than {MOST_REDIRECTS} times", is_final=True)


def read_file(path: str) -> bytes:
    """The content of a file. Raises FetchFailed."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise FetchFailed(f"{path}: {error.strerror or error}", is_final=True) from None
    if len(content) > LARGEST_BYTES:
        raise FetchFailed(f"{path} is larger than {LARGEST_BYTES} bytes", is_final=True)
    return content


def _redirected(at: OAuthEndpoint, location: str) -> OAuthEndpoint:
    try:
        to = parse_endpoint("the redirect", urljoin(at.url, location))
    except BadUrl as error:
        raise FetchFailed(f"{at.url}: {error}", is_final=True) from None
    if (to.scheme, to.host, to.port) != (at.scheme, at.host, at.port):
        raise FetchFailed(f"{at.url} redirects to another host, which is not followed", is_final=True)
    return to


def _exchange(
    endpoint: OAuthEndpoint,
    context: Callable[[], ssl.SSLContext],
    body: bytes | None,
    headers: Mapping[str, str],
    limits: AnswerTimeouts,
) -> tuple[int, bytes, str]:
    """The status, the content and the place of a redirect."""
    connection = HTTPConnection(endpoint.host, endpoint.port)
    made: socket | None = None
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        assert made is not None
        with suppress(OSError):
            socket.shutdown(made, SHUT_RDWR)  # not that of a TLS socket, which another thread uses

    guard = threading.Timer(limits.total_ms / 1000, give_up)
    guard.daemon = True
    try:
        made = create_connection((endpoint.host, endpoint.port), limits.connect_ms / 1000)
        guard.start()
        made.settimeout(limits.total_ms / 1000)
        if endpoint.scheme == "https":
            made = tls = context().wrap_socket(made, server_hostname=endpoint.host, do_handshake_on_connect=False)
            tls.do_handshake()
        connection.sock = made
        connection.request(
            "GET" if body is None else "POST", endpoint.target, body, {"Accept": "application/json", **headers}
        )
        response: HTTPResponse = connection.getresponse()
        content = response.read(LARGEST_BYTES + 1)
        if is_late.is_set():
            raise TimeoutError
        if len(content) > LARGEST_BYTES:
            raise FetchFailed(f"the answer of {endpoint.url} is larger than {LARGEST_BYTES} bytes", is_final=True)
        return response.status, content, response.getheader("Location", "")
    except (OSError, HTTPException, ValueError) as error:
        late = is_late.is_set() or isinstance(error, TimeoutError)
        why = "no answer in time" if late else getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise FetchFailed(f"{endpoint.url}: {why}") from None
    finally:
        guard.cancel()
        connection.close()
        if made is not None:
            made.close()


def retrying(work: Callable[[], T], backoff_ms: int, most_ms: int, sleep: Callable[[float], object] = time.sleep) -> T:
    """The result of ``work``, which is tried again for ``most_ms`` with growing pauses (Kafka's ``Retry``). Raises the
    first FetchFailed."""
    until_s = time.monotonic() + most_ms / 1000
    first: FetchFailed | None = None
    pause_ms = backoff_ms
    while True:
        try:
            return work()
        except FetchFailed as error:
            first = first or error
            wait_s = min(pause_ms / 1000, until_s - time.monotonic())
            if error.is_final or wait_s <= 0:
                raise first from None
        sleep(wait_s)
        pause_ms *= 2
