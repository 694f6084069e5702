"""The fate of the records that a share group was given: accepted, released, archived, and how far it lags (KIP-932).

It is read from the log of the share coordinator, ``__share_group_state``, which has each state that was stored. The lag
is that of DescribeShareGroupOffsets. Records that a member has and has not acknowledged are in none of these.

Not here: records below a start offset that was set from outside, and the members (`groups`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kpybroker.machines.share.record_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from kpybroker.machines.share_coordinator.record import ShareSnapshot, ShareStateEnd, decode
from kpybroker.testing.client import LazyConnection, raise_for
from kpybroker.testing.groups import Spot
from kpybroker.testing.records import Record
from kpywire import error_codes
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

Offsets = Mapping[Spot, Iterable[int]]


class Shared(NamedTuple):
    """The records of one share group, by topic and partition. Partitions without any are left out."""

    accepted: dict[Spot, list[int]]
    """The offsets that members have accepted."""
    released: dict[Spot, dict[int, int]]
    """The offsets that are to be delivered again, with the number of their deliveries. They were released, or their
    locks ended."""
    archived: dict[Spot, list[int]]
    """The offsets that were rejected, or delivered too often."""
    lag: dict[Spot, int]
    """The number of records that the group is not done with, for each partition that it has begun to read."""

    def offsets(self) -> dict[str, dict[Spot, list[int]]]:
        """The offsets by fate."""
        released = {spot: sorted(each) for spot, each in self.released.items()}
        return {"accepted": self.accepted, "released": released, "archived": self.archived}


def fates(log: Iterable[Record], group_id: str, names: Mapping[bytes, str]) -> Shared:
    """The fates in the records of ``__share_group_state``, without the lag. ``names`` are those of topics, by id."""
    states: dict[Spot, dict[int, tuple[int, int]]] = {}
    epochs: dict[Spot, int] = {}
    for record in log:
        found = decode(record.key or b"", record.value)
        if found is None or found.key.group_id != group_id or found.key.topic_id not in names:
            continue
        spot = (names[found.key.topic_id], found.key.partition)
        if isinstance(found, ShareStateEnd):
            states.pop(spot, None)
        if isinstance(found, ShareSnapshot) and epochs.get(spot) != found.state_epoch:
            epochs[spot] = found.state_epoch
            states.pop(spot, None)  # the group begins again
        if not isinstance(found, ShareStateEnd):
            known = states.setdefault(spot, {})
            for batch in found.batches:
                state = (batch.delivery_state, batch.delivery_count)
                known.update(dict.fromkeys(range(batch.first_offset, batch.last_offset + 1), state))
    accepted, archived = _in_state(states, ACKNOWLEDGED), _in_state(states, ARCHIVED)
    released = {
        spot: {offset: states[spot][offset][1] for offset in offsets}
        for spot, offsets in _in_state(states, AVAILABLE).items()
    }
    return Shared(accepted, released, archived, {})


def _in_state(states: Mapping[Spot, Mapping[int, tuple[int, int]]], state: int) -> dict[Spot, list[int]]:
    found = {
        spot: sorted(offset for offset, (is_in, _) in known.items() if is_in == state)
        for spot, known in sorted(states.items())
    }
    return {spot: offsets for spot, offsets in found.items() if offsets}


async def lag(client: LazyConnection, group_id: str) -> dict[Spot, int]:
    """The lag of each partition that the group has begun to read; nothing if there is no share group of this name.

    Raises KafkaError.
    """
    return await client.retrying(lambda: _lag(client, group_id))


async def _lag(client: LazyConnection, group_id: str) -> dict[Spot, int]:
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)]
    )
    (answer,) = (await client.call(request)).groups
    if answer.error_code == error_codes.GROUP_ID_NOT_FOUND:
        return {}
    raise_for(answer.error_code, f"share group {group_id}")
    parts = [(topic.topic_name, part) for topic in answer.topics for part in topic.partitions]
    for name, part in parts:
        raise_for(part.error_code, f"share group {group_id}, partition {name}-{part.partition_index}")
    return {(name, part.partition_index): part.lag for name, part in parts if part.lag >= 0}


def differences(expected: Mapping[str, Offsets | None], shared: Shared, lag: int | None) -> Sequence[str]:
    """The differences between expected fates and the real ones, in lines; nothing if there are none. None expects
    nothing, and ``lag`` is that of all partitions."""
    lines = []
    for fate, have in shared.offsets().items():
        wanted: Any = expected.get(fate)
        if wanted is None:
            continue
        want = {spot: sorted(offsets) for spot, offsets in wanted.items() if offsets}
        for spot in sorted({*want, *have}):
            if want.get(spot, []) != have.get(spot, []):
                topic, index = spot
                lines.append(f"- {topic}-{index} {fate}: {want.get(spot, [])}")
                lines.append(f"+ {topic}-{index} {fate}: {have.get(spot, [])}")
    total = sum(shared.lag.values())
    if lag is not None and lag != total:
        lines += [f"- lag: {lag}", f"+ lag: {total} {shared.lag}"]
    return lines
