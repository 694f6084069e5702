"""A client that sends what no client should, and reads whatever comes back."""

import socket
import struct
from typing import Any

from kpywire import api, error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from support.raw_client import RawClient

CREATE_TOPICS_VERSION = 7
PRODUCE_VERSION = 9
FENCE_ID = 0x7EACE


class Attacker(RawClient):
    """One connection. Use as a context manager."""

    def send_frame(self, payload: bytes) -> None:
        """A frame whose size is true, whatever is in it."""
        self.sock.sendall(struct.pack(">i", len(payload)) + payload)

    def read_frame(self) -> bytes:
        """The next answer as it came, without its size."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def drain(self, timeout_s: float | None = None) -> bool:
        """Ask for ApiVersions and read everything up to the answer: True. False when the broker closed instead.

        Raises TimeoutError when neither happens.
        """
        if timeout_s is not None:
            self.sock.settimeout(timeout_s)
        try:
            self.send_frame(struct.pack(">hhih", api.API_VERSIONS, 0, FENCE_ID, -1))
            while True:
                (size,) = struct.unpack(">i", self._read(4))
                assert 4 <= size <= 1 << 30, f"an answer of {size} bytes"
                answer = self._read(size)
                if struct.unpack_from(">i", answer)[0] == FENCE_ID:
                    return True
        except (ConnectionError, BrokenPipeError):
            return False

    def vanish(self) -> None:
        """Close with a reset, as a machine does that forgot its connections. Safe to call twice."""
        if self.sock.fileno() < 0:
            return
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def create_topic(client: RawClient, name: str, partitions: int = 1, **configs: str) -> bytes:
    """Create a topic; its id. Configs are keywords with ``_`` for ``.``."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
    result = client.call(request, CREATE_TOPICS_VERSION).topics[0]
    assert result.error_code == error_codes.NONE, result
    topic_id: bytes = result.topic_id
    return topic_id


def produce_request(topic: str, records: Any, *, acks: int = 1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(client: RawClient, topic: str, records: Any, *, partition: int = 0) -> PartitionProduceResponse:
    """Produce one batch; the partition's answer."""
    response = client.call(produce_request(topic, records, partition=partition), PRODUCE_VERSION)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer
