"""One connection to one broker on an event loop: a request and its answer at a time."""

import asyncio
from typing import Any, Self

from kpybroker.client.conversation import GREETING_VERSIONS, SIZE, SOFTWARE, Conversation
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.errors import Malformed, UnsupportedVersion


class AsyncioConnection:
    """A connection that knows which versions its broker serves; made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, conversation: Conversation) -> None:
        self._reader = reader
        self._writer = writer
        self._conversation = conversation

    @classmethod
    async def connect(cls, host: str, port: int, client_id: str) -> Self:
        """Connect and ask for the versions. Raises OSError or EOFError, and KafkaError if the broker refuses."""
        reader, writer = await asyncio.open_connection(host, port)
        made = cls(reader, writer, Conversation(f"{host}:{port}", client_id))
        try:
            await made._greet()
        except BaseException:
            writer.close()
            raise
        return made

    def close(self) -> None:
        """Close it."""
        self._writer.close()

    async def call(self, request: Any) -> Any:
        """Ask and return the answer.

        Raises:
            OSError, EOFError: the connection is of no use any more.
            KafkaError: UNSUPPORTED_VERSION, the broker serves no version that can carry the request.
        """
        return await self._exchange(request, self._conversation.version(type(request).KEY))

    async def _greet(self) -> None:
        for version in GREETING_VERSIONS:
            answer = await self._exchange(SOFTWARE, version)
            if self._conversation.greeted(answer):
                return
            if answer.error_code != error_codes.UNSUPPORTED_VERSION:
                break
        raise KafkaError(answer.error_code, "the broker answers no ApiVersions request")

    async def _exchange(self, request: Any, version: int) -> Any:
        try:
            self._writer.write(self._conversation.frame(request, version))
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, str(error)) from None
        await self._writer.drain()
        try:
            size = self._conversation.size(await self._reader.readexactly(SIZE.size))
            return self._conversation.answer(type(request).KEY, version, await self._reader.readexactly(size))
        except Malformed as error:
            raise ConnectionError(f"the broker does not speak Kafka's protocol: {error}") from None
