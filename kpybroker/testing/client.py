"""The small Kafka client behind what a test asks of its broker: one connection, newest versions, one node.

Not for programs under test. Requests carry a client id of their own, which faults leave alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from struct import Struct
from typing import Any, TypeVar

from kpybroker.errors import KafkaError
from kpybroker.testing.faults import OWN_CLIENT_ID
from kpywire import api, codec, error_codes
from kpywire.errors import UnsupportedVersion
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

T = TypeVar("T")

ANSWER_TIMEOUT_S = 30.0
RETRY_PAUSE_S = 0.005
LATEST = -1
EARLIEST = -2
_SIZE = Struct(">i")


class Client:
    """A connection to one broker, made at its first use and made again when it was lost."""

    def __init__(self, host: str, port: Callable[[], int]) -> None:
        self._host = host
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._versions: dict[int, int] = {}
        self._correlation_id = 0
        self._one_at_a_time = asyncio.Lock()

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def call(self, request: Any) -> Any:
        """Ask and return the answer. Raises OSError when the broker is gone, KafkaError if it lacks the API."""
        async with self._one_at_a_time, asyncio.timeout(ANSWER_TIMEOUT_S):
            try:
                if self._streams is None:
                    await self._connect()
                return await self._exchange(request, self._version(type(request).KEY))
            except (OSError, EOFError, asyncio.CancelledError):
                self.close()
                raise

    async def retrying(self, attempt: Callable[[], Awaitable[T]], within_s: float = ANSWER_TIMEOUT_S) -> T:
        """What ``attempt`` returns, tried again while it raises a KafkaError that passes."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error_codes.retriable(error.code) or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    async def topics(self, names: Iterable[str] | None = None) -> list[MetadataResponseTopic]:
        """These topics, or all, each with its error code; none is created."""
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
        """For each partition the offset of the first record not before a time, or LATEST or EARLIEST."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp_ms) for index in partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        found = {}
        for one in (await self.call(request)).topics[0].partitions if asked else ():
            raise_for(one.error_code, f"partition {topic}-{one.partition_index}")
            found[one.partition_index] = one.offset
        return found

    async def _connect(self) -> None:
        self._streams = await asyncio.open_connection(self._host, self._port())
        if not self._versions:
            answer = await self._exchange(ApiVersionsRequest(client_software_name="kpybroker-testing"), 0)
            self._versions = {one.api_key: one.max_version for one in answer.api_keys}

    def _version(self, key: int) -> int:
        if key not in self._versions:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"the broker does not serve {api.API_KEYS[key].name}")
        return min(self._versions[key], api.API_KEYS[key].max_version)

    async def _exchange(self, request: Any, version: int) -> Any:
        assert self._streams is not None
        reader, writer = self._streams
        key = type(request).KEY
        self._correlation_id += 1
        try:
            body = codec.encode(request, version)
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, str(error)) from None
        header = encode_request_header(key, version, self._correlation_id, OWN_CLIENT_ID)
        writer.write(_SIZE.pack(len(header) + len(body)) + header + body)
        await writer.drain()
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        frame = await reader.readexactly(size)
        correlation_id, start = decode_response_header(key, version, frame)
        if correlation_id != self._correlation_id:
            raise ConnectionError("the broker's answers are out of order")
        return codec.decode(api.response_class(key), version, frame, start)


def raise_for(code: int, what: str, message: str | None = None) -> None:
    """Raise KafkaError if ``code`` is one."""
    if code:
        raise KafkaError(code, f"{what}: {message or error_codes.message(code)}")
