"""A node whose contents are known: topics, records, groups, a quota and an open transaction."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from console_node import ConsoleNode, console_node, often_sampled
from stage import Stage
from test_transactions_page import open_transaction

from kpybroker.machines.remote_log.copying import CopyLag, Wait
from kpystorage.memory_disk import MemoryDisk
from kpywire.uuid import to_string
from support.tier_states import FixedTiers, tier_state
from support.waiting import eventually

TIERS = FixedTiers(
    tier_state(
        "flights",
        copied=9,
        end=20,
        log_start=1,
        local_log_start=5,
        local_bytes=2048,
        remote_bytes=4096,
        segments=2,
        copy_lag=CopyLag(1024, 3),
        wait=Wait.FAILED,
        reason="copy failed: away (1 times)",
        last_error="away",
        unfinished=1,
    )
)
_PARTITION = {
    "topic": "flights",
    "partition": 0,
    "wait": "FAILED",
    "reason": "copy failed: away (1 times)",
    "until_s": None,
    "lag_bytes": 1024,
    "lag_segments": 3,
    "remote_bytes": 4096,
    "segments": 2,
    "local_bytes": 2048,
    "log_start": 1,
    "local_log_start": 5,
    "copied": 9,
    "end": 20,
    "unfinished": 1,
    "last_error": "away",
}
TIERS_SHOWN = {
    "is_on": True,
    "store": "memory:",
    "store_error": "",
    "page": 1,
    "pages": 1,
    "total": 1,
    "partitions": [_PARTITION],
    "remote_bytes": 4096,
    "lag_bytes": 1024,
    "lag_segments": 3,
    "copy_throttle_ms": 0.0,
    "fetch_throttle_ms": 0.0,
}
"""The answer of the page of tiered storage."""
NO_MIRRORS = {
    "mirrors": [],
    "page": 1,
    "pages": 1,
    "total": 0,
    "topics": [],
    "partitions": [],
    "partitions_left_out": 0,
    "carrier": None,
    "is_carrier": False,
    "carrier_console": None,
    "groups": [],
    "groups_left_out": 0,
    "silent_nodes": [],
}
"""The answer of the page of mirrors on a node that has none; `test_mirrors_page` has others."""
SETTINGS = {"kpybroker_console_write_enable": "true", "broker_rack": "rack-1"}


class Known(NamedTuple):
    """A node and what is known of it."""

    node: ConsoleNode
    stage: Stage
    producer: Producer
    disk: MemoryDisk

    @property
    def port(self) -> int:
        return self.node.node.ports["PLAINTEXT"]

    def topic_id(self, name: str) -> str:
        return to_string(self.node.node.image.topics[name].id)

    @property
    def end_of_metadata(self) -> int:
        broker = self.node.node.broker
        assert broker is not None
        return broker.controller.local_state.next_offset

    def file_bytes(self, topic: str) -> int:
        """The bytes of the only segment of a partition, of the file itself."""
        return len(self.log_of(topic))

    def log_of(self, topic: str) -> bytes:
        """The only segment of a partition, as its file has it."""
        return self.node.call(lambda: bytes(self.disk.read(f"/data/{topic}-0/{'0' * 20}.log")))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def known() -> Iterator[Known]:
    disk = MemoryDisk()
    with often_sampled(), console_node(disk, **SETTINGS) as node:
        stage = Stage(node)
        node.create("paid")
        node.limit("producer_byte_rate", 5e8)
        assert node.post("/topics/flights/configs", name="segment.ms", value="3 days").status == 200
        producer = open_transaction(node, "payments", "paid")
        node.call(lambda: setattr(node.node.broker, "remote_log", TIERS))
        node.get("/api/cluster")
        eventually(lambda: node.get("/api/group", id="readers").json["read_per_s"] is not None, "two samples")
        eventually(lambda: node.get("/api/topics").json["topics"][0]["bytes_in_per_s"] is not None, "rates of topics")
        yield Known(node, stage, producer, disk)
        stage.close()
