"""The offsets and sizes of partitions without a replica on this node, asked of their leaders with the viewer's own
login: for the partitions of one page, and only for a second."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.remote_records import EARLIEST, LATEST
from kpybroker.monitoring.console.viewer import Viewer
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

PATIENCE_S: Final = 1.0
MOST_NODES: Final = 20
"""The leaders that are asked at most."""


class RemotePartition(NamedTuple):
    """The contents of a partition as its leader reports them; None where it does not."""

    start_offset: int | None
    end_offset: int | None
    bytes: int | None


async def contents_of(
    elsewhere: Elsewhere, viewer: Viewer, topic: str, by_leader: Mapping[int, Sequence[int]]
) -> tuple[dict[int, RemotePartition], tuple[str, ...]]:
    """The contents of partitions of a topic, and a line for each leader that does not report them."""
    leaders = sorted(by_leader)[:MOST_NODES]
    answers = await asyncio.gather(
        *[_asked(elsewhere, viewer, (leader, topic), by_leader[leader]) for leader in leaders]
    )
    found: dict[int, RemotePartition] = {}
    lines = []
    for leader, answer in zip(leaders, answers, strict=True):
        if isinstance(answer, str):
            lines.append(f"node {leader}: {answer}")
        else:
            found |= answer
    return found, tuple(lines)


async def _asked(
    elsewhere: Elsewhere, viewer: Viewer, place: tuple[int, str], partitions: Sequence[int]
) -> dict[int, RemotePartition] | str:
    leader, topic = place
    sizes = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=list(partitions))])
    requests: list[Any] = [_offsets(topic, partitions, EARLIEST), _offsets(topic, partitions, LATEST), sizes]
    try:
        async with asyncio.timeout(PATIENCE_S):
            starts, ends, logs = await asyncio.gather(*[elsewhere.ask(viewer, leader, each) for each in requests])
    except TimeoutError:
        return "it does not answer"
    except KafkaError as error:
        return error.message or str(error)
    first, last = _by_partition(starts), _by_partition(ends)
    in_bytes = {
        each.partition_index: each.partition_size
        for directory in logs.results
        for listed in directory.topics
        for each in listed.partitions
        if not each.is_future_key
    }
    return {each: RemotePartition(first.get(each), last.get(each), in_bytes.get(each)) for each in partitions}


def _offsets(topic: str, partitions: Sequence[int], timestamp: int) -> ListOffsetsRequest:
    spots = [ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in partitions]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=spots)])


def _by_partition(answer: Any) -> dict[int, int]:
    return {
        each.partition_index: each.offset for topic in answer.topics for each in topic.partitions if not each.error_code
    }
