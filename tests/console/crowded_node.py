"""A node with 5 000 partitions and 500 groups that have a lag, in one wide topic and many others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from console_node import ConsoleNode, console_node
from stage import Stage

from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.record import Record
from support.raw_client import RawClient
from support.waiting import eventually

PARTITIONS: Final = 5_000
WIDE: Final = 2_500
"""The partitions of the wide topic."""
EACH: Final = 10
"""The partitions of each other topic, and the positions of each group."""
GROUPS: Final = 500
RECORDS: Final = 30


@contextmanager
def crowd() -> Iterator[Stage]:
    """The node."""
    with console_node(kpybroker_console_write_enable="true") as node:
        stage = Stage(node)
        topics = {"crowd": WIDE, **{f"topic-{number}": EACH for number in range((PARTITIONS - WIDE) // EACH)}}
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            for name, count in topics.items()
        ]
        with node.client as client:
            client.call(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 5)
            eventually(lambda: len(node.node.image.topics) > len(topics), "all topics", 60)
        for partition in range(EACH):
            node.produce("crowd", [Record(value=b"v", timestamp=1_000)] * RECORDS, partition)
        _commit(node)
        yield stage
        stage.close()


def _commit(node: ConsoleNode) -> None:
    with node.client as client:
        client.call(FindCoordinatorRequest(key="group-0", key_type=0), 3)
        for number in range(GROUPS):
            eventually(lambda number=number: _committed(client, number), f"a commit of group {number}")


def _committed(client: RawClient, number: int) -> bool:
    spots = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=(number + index) % RECORDS, committed_metadata=""
        )
        for index in range(EACH)
    ]
    topics = [OffsetCommitRequestTopic(name="crowd", partitions=spots)]
    (answer,) = client.call(OffsetCommitRequest(group_id=f"group-{number}", topics=topics), 2).topics
    return all(each.error_code == 0 for each in answer.partitions)
