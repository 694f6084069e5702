"""The login of the senders of HTTP requests: basic authentication (RFC 7617).

A login that failed is answered late. While several of one host wait for that, further ones are refused unread, so
guessing is slow however many connections are used. Not here: where the users are kept, and what they may see.
"""

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final

from kpybroker.calls.principal import ANONYMOUS, USER, Principal
from kpybroker.http.request import Refused, Request

FAILURE_DELAY_S: Final = 0.5
MOST_FAILURES_OF_HOST: Final = 4
"""The failed logins of a host that are answered late at once."""
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="kpybroker", charset="UTF-8"'}

Verify = Callable[[str, str], Awaitable[bool]]
"""(name, password) -> whether they belong together. Raises Refused if that cannot be said now."""


class Gate:
    """The login before the routes of a server."""

    def __init__(
        self, verify: Verify, open_paths: Collection[str], failed: Callable[[str, str], object] = lambda _h, _n: None
    ) -> None:
        """``open_paths`` are served to everybody. ``failed`` gets the host and the name of each failed login."""
        self._verify = verify
        self._open_paths = open_paths
        self._failed = failed
        self._failures: Counter[str] = Counter()

    async def admit(self, request: Request) -> Principal:
        """The sender of a request. Raises Refused."""
        given = request.headers.get("authorization")
        if given is None and request.path in self._open_paths:
            return ANONYMOUS
        credentials = None if given is None else credentials_in(given)
        if credentials is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in by basic authentication", CHALLENGE)
        host = request.host
        if self._failures[host] >= MOST_FAILURES_OF_HOST:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many logins fail; try again in a second")
        name, password = credentials
        if await self._verify(name, password):
            return Principal(USER, name)
        self._failed(host, name)
        self._failures[host] += 1
        try:
            await asyncio.sleep(FAILURE_DELAY_S)
        finally:
            self._failures[host] -= 1
            if not self._failures[host]:
                del self._failures[host]
        raise Refused(HTTPStatus.UNAUTHORIZED, "wrong name or password", CHALLENGE)


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
