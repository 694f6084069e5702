"""Requests of members of streams groups (KIP-1071), with what Kafka demands of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TopicInfo,
)

REBALANCE_MS = 10_000
Tasks = Mapping[str, Sequence[int]]


def source_of(
    name: str,
    *topics: str,
    sinks: Sequence[str] = (),
    repartition: Sequence[TopicInfo] = (),
    changelogs: Sequence[TopicInfo] = (),
) -> Subtopology:
    """A subtopology that reads these topics."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(topics),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition),
        copartition_groups=[],
    )


def streaming(
    group: str,
    member_id: str,
    epoch: Any,
    *,
    active: Tasks | None = None,
    warmup: Tasks | None = None,
    **fields: Any,
) -> StreamsGroupHeartbeatRequest:
    """A heartbeat. One that joins, or lists tasks of a role, has the lists of all roles."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": member_id, **fields}
    if epoch == 0 or active is not None or warmup is not None:
        lists = {"active_tasks": _listed(active), "standby_tasks": [], "warmup_tasks": _listed(warmup)}
        fields = {**lists, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=fields.pop("endpoint_information_epoch", 0),
        **fields,
    )


def _listed(tasks: Tasks | None) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=each, partitions=list(indexes))
        for each, indexes in (tasks or {}).items()
    ]
