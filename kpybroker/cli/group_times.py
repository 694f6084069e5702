"""The times at which the rebalance of a consumer or streams group came to a halt, read from the log of its coordinator.

ConsumerGroupDescribe says who holds what, but not since when. The coordinator's log does: its last records have the
time of the group's target and of each member's last step. A user who may not read that topic sees no times.
"""

import time
from typing import Final

from kpybroker.client.client import Client, Spot
from kpybroker.client.group_requests import GroupDescription
from kpybroker.client.reader import FetchSettings, ReadRecord, RecordReader
from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.record import FORMAT
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpywire.errors import Malformed
from kpywire.group_records import table

READ_BACK_MS: Final = 15 * 60_000
"""A rebalance ends after the members' rebalance timeouts, which are 5 minutes unless they are configured."""
LONGEST_S: Final = 5.0
_WITH_TIMES: Final = (
    table.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    table.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    table.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    table.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)
"""The records of targets and of members' steps."""


def halted_since(client: Client, group: GroupDescription) -> dict[str, int]:
    """The time in ms since which each member is where it is, by member id; empty if it cannot be read."""
    try:
        return _read(client, group)
    except KafkaError:
        return {}


def _read(client: Client, group: GroupDescription) -> dict[str, int]:
    partitions = client.topic(GROUP_OFFSETS_TOPIC).partitions
    spot = Spot(GROUP_OFFSETS_TOPIC, partition_for(group.name, len(partitions)))
    wanted_ms = time.time_ns() // 1_000_000 - READ_BACK_MS
    begin = client.list_offsets({spot: wanted_ms}).get(spot, -1)
    end = client.list_offsets({spot: -1})[spot]
    if begin < 0:
        return {}
    reader = RecordReader(client, {spot: begin}, fetching=FetchSettings(max_wait_ms=50))
    target_ms, steps = 0, dict.fromkeys((member.member_id for member in group.members), 0)
    deadline_s = time.monotonic() + LONGEST_S
    while reader.positions[spot] < end and time.monotonic() < deadline_s:
        for found in reader.poll():
            member_id = _about(found, group.name)
            if member_id == "":
                target_ms = found.record.timestamp
            elif member_id in steps:
                steps[member_id] = found.record.timestamp
    return {member_id: since_ms for member_id, step_ms in steps.items() if (since_ms := max(step_ms, target_ms))}


def _about(found: ReadRecord, group_id: str) -> str | None:
    """The member whose step a record holds, an empty string for the target of the group, None for all else."""
    try:
        key = FORMAT.decode_key(found.record.key or b"")
    except (Malformed, KeyError):
        return None
    if key.KEY not in _WITH_TIMES or key.group_id != group_id:
        return None
    return str(getattr(key, "member_id", ""))
