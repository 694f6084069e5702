"""The login of the senders of HTTP requests: basic authentication (RFC 7617), and the port where nobody can log in.

Every password is checked. The answer to a wrong one comes late and keeps its connection until then, so guessing is as
slow as the port has places. Not here: where the users are kept, and what they may see.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final, Protocol

from kpybroker.runtime.calls.principal import ANONYMOUS, USER, Principal
from kpybroker.runtime.http.request import HttpRefused, Request

FAILURE_DELAY_S: Final = 0.5
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="kpybroker", charset="UTF-8"'}
STRANGERS: Final = (
    "beyond loopback this needs a login: set kpybroker.http.users, or a listener on 127.0.0.1, or name the path in "
    "kpybroker.http.open.paths"
)

Verify = Callable[[str, str], Awaitable[bool]]
"""(name, password) -> whether they belong together. Raises Refused if that cannot be said now."""


class Admission(Protocol):
    """The stage before the routes of a server."""

    async def admit(self, request: Request) -> Principal:
        """The sender of a request. Raises Refused."""


class Gate:
    """The gate of a port with users: everybody logs in, except on its open paths."""

    def __init__(
        self, verify: Verify, open_paths: Collection[str], failed: Callable[[str, str], object] = lambda _h, _n: None
    ) -> None:
        """``open_paths`` are served to everybody. ``failed`` gets the host and the name of each failed login."""
        self._verify = verify
        self._open_paths = open_paths
        self._failed = failed

    async def admit(self, request: Request) -> Principal:
        """The sender of a request. Raises Refused."""
        given = request.headers.get("authorization")
        if given is None and request.path in self._open_paths:
            return ANONYMOUS
        credentials = None if given is None else credentials_in(given)
        if credentials is None:
            raise HttpRefused(HTTPStatus.UNAUTHORIZED, "log in by basic authentication", CHALLENGE)
        name, password = credentials
        if await self._verify(name, password):
            return Principal(USER, name)
        self._failed(request.host, name)
        raise HttpRefused(HTTPStatus.UNAUTHORIZED, "wrong name or password", CHALLENGE, delay_s=FAILURE_DELAY_S)


class OpenGate:
    """The gate of a port without users: it serves everybody on loopback, and beyond it its open paths alone."""

    def __init__(self, open_paths: Collection[str], *, is_loopback: bool) -> None:
        self._open_paths = open_paths
        self._is_loopback = is_loopback

    async def admit(self, request: Request) -> Principal:
        """Nobody in particular. Raises Refused."""
        if not self._is_loopback and request.path not in self._open_paths:
            raise HttpRefused(HTTPStatus.FORBIDDEN, STRANGERS)
        return ANONYMOUS


def credentials_in(header: str) -> tuple[str, str] | None:
    """The name and password in the header Authorization; None if it is none of basic authentication."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (Base64Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if colon and name else None
