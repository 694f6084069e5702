"""One connection to one broker on an event loop: a request and its answer at a time, behind TLS and a login if one is
set."""

import asyncio
import math
import time
from collections.abc import Awaitable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kpybroker.client.conversation import GREETING_VERSIONS, OTHER_PROTOCOLS, SIZE, SOFTWARE, Conversation
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.errors import Malformed, UnsupportedVersion

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from kpybroker.client.protection import ConnectionProtection

T = TypeVar("T")
LOGIN_THREADS: Final = 4
"""The logins that may block at once: a KDC that does not answer takes no other threads."""


class AsyncioConnection:
    """A connection that knows which versions its broker serves; made by `connect`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        place: tuple[str, int],
        conversation: Conversation,
        protection: "ConnectionProtection | None" = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._place = place
        self._conversation = conversation
        self._protection = protection
        self._login_due_s = math.inf
        self._is_greeted = self._is_served = False

    @classmethod
    async def connect(
        cls, host: str, port: int, client_id: str, protection: "ConnectionProtection | None" = None
    ) -> Self:
        """Connect, ask for the versions and log in.

        Raises OSError or EOFError, KafkaError if the broker refuses, LoginRefused if it refuses the login, BadProperty
        if a file of keys or certificates cannot be used.
        """
        reader, writer = await _opened(host, port, protection)
        made = cls(reader, writer, (host, port), Conversation(f"{host}:{port}", client_id), protection)
        try:
            await made._greet()
            await made._log_in()
        except BaseException:
            writer.close()
            raise
        return made

    def close(self) -> None:
        """Close it."""
        self._writer.close()

    def version(self, key: int, newest: int | None = None) -> int:
        """The version that `call` uses for an API key. KafkaError."""
        return self._conversation.version(key, newest)

    async def call(self, request: Any, newest: int | None = None) -> Any:
        """Ask, at most in version ``newest``, and return the answer.

        Raises:
            OSError, EOFError: the connection is of no use any more.
            KafkaError: UNSUPPORTED_VERSION, the broker serves no version that can carry the request.
        """
        if time.monotonic() >= self._login_due_s:
            await self._log_in()
        answer = await self._exchange(request, self._conversation.version(type(request).KEY, newest))
        self._is_served = True
        return answer

    async def _greet(self) -> None:
        for version in GREETING_VERSIONS:
            answer = await self._exchange(SOFTWARE, version)
            if self._conversation.greeted(answer):
                self._is_greeted = True
                return
            if answer.error_code != error_codes.UNSUPPORTED_VERSION:
                break
        raise KafkaError(answer.error_code, "the broker answers no ApiVersions request")

    async def _log_in(self) -> None:
        """Log in, or log in again on the same connection. Raises LoginRefused."""
        protection = self._protection
        if protection is None or protection.login is None:
            return
        from kpybroker.client import login

        began_s = time.monotonic()
        loop = asyncio.get_running_loop()
        dialogue = login.dialogue(protection.login, self._conversation, protection.protocol)
        request, lifetime_ms = login.advance(dialogue, None)
        while request is not None:
            answer = await self._exchange(request, self._conversation.version(type(request).KEY))
            if protection.login.may_block:
                request, lifetime_ms = await loop.run_in_executor(_login_threads(), login.advance, dialogue, answer)
            else:
                request, lifetime_ms = login.advance(dialogue, answer)
        self._login_due_s = began_s + login.due_s(lifetime_ms)

    async def _exchange(self, request: Any, version: int) -> Any:
        try:
            self._writer.write(self._conversation.frame(request, version))
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, str(error)) from None
        await self._or_why(self._writer.drain())
        start = await self._or_why(self._reader.readexactly(SIZE.size))
        if start in OTHER_PROTOCOLS:
            from kpybroker.client.causes import other_protocol

            raise ConnectionError(other_protocol(OTHER_PROTOCOLS[start], self._conversation.address))
        try:
            frame = await self._or_why(self._reader.readexactly(self._conversation.size(start)))
            return self._conversation.answer(type(request).KEY, version, frame)
        except Malformed as error:
            raise ConnectionError(f"the broker does not speak Kafka's protocol: {error}") from None

    async def _or_why(self, step: Awaitable[T]) -> T:
        """The result of sending or receiving. Raises an error that names the reason where it can be found out."""
        try:
            return await step
        except (OSError, EOFError) as error:
            why = await self._why_lost(error)
            if not why:
                raise
            raise ConnectionError(why) from None

    async def _why_lost(self, error: OSError | EOFError) -> str:
        """The reason why the broker closed a connection that it has not served yet; empty if it is unknown."""
        if self._is_served:
            return ""
        from kpybroker.client import causes

        if isinstance(error, OSError) and self._protection is not None and self._protection.has_tls:
            why = causes.alert_in_words(error, causes.GivenAddress(*self._place), self._protection)
            if why:
                return why
        return await asyncio.to_thread(
            causes.why_closed, causes.GivenAddress(*self._place), self._protection, is_greeted=self._is_greeted
        )


@cache
def _login_threads() -> "ThreadPoolExecutor":
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="kpybroker-login")


async def _opened(
    host: str, port: int, protection: "ConnectionProtection | None"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if protection is None or not protection.has_tls:
        return await asyncio.open_connection(host, port)
    from ssl import SSLError

    try:
        return await asyncio.open_connection(host, port, ssl=protection.context, server_hostname=host)
    except (SSLError, ConnectionResetError) as error:
        from kpybroker.client.causes import GivenAddress, handshake_failed

        why = await asyncio.to_thread(handshake_failed, error, GivenAddress(host, port), protection)
        raise ConnectionError(why) from None
