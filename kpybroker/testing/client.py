"""The small Kafka client with which a test's broker object asks its broker: one connection, newest versions, one node.

It is not for programs under test. Its requests carry a client id of their own, which faults leave alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.machines.errors import KafkaError
from kpybroker.testing.faults import OWN_CLIENT_ID
from kpywire import error_codes
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

T = TypeVar("T")

ANSWER_TIMEOUT_S = 30.0
RETRY_PAUSE_S = 0.005
LATEST = -1
EARLIEST = -2


class LazyConnection:
    """A connection to one broker, made at its first use and made again after it was lost."""

    def __init__(self, host: str, port: Callable[[], int]) -> None:
        self._host = host
        self._port = port
        self._connection: AsyncioConnection | None = None
        self._one_at_a_time = asyncio.Lock()

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def call(self, request: Any) -> Any:
        """Send a request and return the answer. Raises OSError when the broker is gone, KafkaError if it lacks the
        API."""
        async with self._one_at_a_time, asyncio.timeout(ANSWER_TIMEOUT_S):
            try:
                if self._connection is None:
                    self._connection = await AsyncioConnection.connect(self._host, self._port(), OWN_CLIENT_ID)
                return await self._connection.call(request)
            except (OSError, EOFError, asyncio.CancelledError):
                self.close()
                raise

    async def retrying(self, attempt: Callable[[], Awaitable[T]], within_s: float = ANSWER_TIMEOUT_S) -> T:
        """The result of ``attempt``, tried again while it raises a KafkaError that passes."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error_codes.retriable(error.code) or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    async def topics(self, names: Iterable[str] | None = None) -> list[MetadataResponseTopic]:
        """These topics, or all of them, each with its error code. None is created."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = await self.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        topics: list[MetadataResponseTopic] = answer.topics
        return topics

    async def partitions(self, topic: str) -> tuple[bytes, list[int]]:
        """The topic's id and its partitions. Raises KafkaError."""
        (found,) = await self.topics([topic])
        raise_for(found.error_code, f"topic {topic}")
        return found.topic_id, sorted(one.partition_index for one in found.partitions)

    async def offsets(self, topic: str, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """The offset of the first record not before a time, or LATEST or EARLIEST, for each partition."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp_ms) for index in partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        found = {}
        for one in (await self.call(request)).topics[0].partitions if asked else ():
            raise_for(one.error_code, f"partition {topic}-{one.partition_index}")
            found[one.partition_index] = one.offset
        return found


def raise_for(code: int, what: str, message: str | None = None) -> None:
    """Raise KafkaError if ``code`` is an error."""
    if code:
        raise KafkaError(code, f"{what}: {message or error_codes.message(code)}")
