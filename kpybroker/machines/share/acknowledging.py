"""Acknowledgements of a member, and the release of all that it has (Kafka: ``SharePartition.acknowledge``).

All batches of a request count, or none. Records below the start offset are skipped. The errors and their order are
Kafka's.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.in_flight import InFlightBatch
from kpybroker.machines.share.partition import SharePartition, Started, StartedChange
from kpybroker.machines.share.record_state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    RecordState,
)
from kpywire import error_codes

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
_STATES: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}


class Acknowledgement(NamedTuple):
    """A range of records, and one type for all of them or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        """The type for one record."""
        return self.types[offset - self.first_offset] if len(self.types) > 1 else self.types[0]


def acknowledge(
    partition: SharePartition, member_id: str, batches: Sequence[Acknowledgement], now_ms: int
) -> StartedChange | None:
    """Start the change that acknowledgements mean; None if nothing has to be stored.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_RECORD_STATE. Nothing changed, except for locks that were renewed.
    """
    started: list[Started] = []
    try:
        for each in batches:
            if not set(each.types) <= {*_STATES, RENEW}:
                raise KafkaError(error_codes.INVALID_REQUEST, f"Invalid acknowledge type: {list(each.types)}")
            if each.last_offset >= partition.start_offset:
                for batch in _batches_of(partition, each):
                    _acknowledge_batch(partition, member_id, each, batch, started, now_ms)
    except KafkaError:
        partition.settle(started, is_stored=False)
        raise
    return _change(partition, started)


def release(partition: SharePartition, member_id: str) -> StartedChange | None:
    """Start to release all records that a member has; None if it has none."""
    started: list[Started] = []
    for batch in partition:
        whole = batch.whole
        is_its = whole is not None and whole.state == ACQUIRED and whole.member_id == member_id
        if is_its and batch.holds_start(partition.start_offset):
            batch.split()
        for first, last, state in batch.all_ranges:
            if state.member_id == member_id and state.state == ACQUIRED:
                to = ARCHIVED if last < partition.start_offset else AVAILABLE
                started.append(partition.start(first, last, state, to))
    return _change(partition, started)


def _change(partition: SharePartition, started: list[Started]) -> StartedChange | None:
    if not started:
        return None
    return StartedChange(partition.write_of([each.stored for each in started]), started)


def _batches_of(partition: SharePartition, each: Acknowledgement) -> list[InFlightBatch]:
    floor = partition.floor(each.first_offset)
    if floor is None:
        if each.first_offset < partition.start_offset:
            floor = partition.floor(partition.start_offset)
        if floor is None:
            raise KafkaError(
                error_codes.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
    found = partition.between(floor.first_offset, each.last_offset)
    if found[-1].last_offset < each.first_offset:
        raise KafkaError(
            error_codes.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
        )
    if each.last_offset > found[-1].last_offset:
        raise KafkaError(
            error_codes.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
        )
    return found


def _acknowledge_batch(
    partition: SharePartition,
    member_id: str,
    each: Acknowledgement,
    batch: InFlightBatch,
    started: list[Started],
    now_ms: int,
) -> None:
    if batch.last_offset < partition.start_offset:
        return
    whole = batch.whole
    if whole is not None:
        _check(whole, member_id, "batch record")
        is_part = not batch.lies_within(each.first_offset, each.last_offset) or len(each.types) > 1
        if is_part or batch.holds_start(partition.start_offset):
            batch.split()
    first_offset = max(each.first_offset, partition.start_offset)
    for first, last, state in list(batch.ranges(first_offset, each.last_offset)):
        _check(state, member_id, "offset")
        acknowledged_as = each.type_of(first) if batch.whole is None else each.types[0]
        if acknowledged_as != RENEW:
            started.append(partition.start(first, last, state, _state_after(partition, acknowledged_as)))
        elif partition.settings.may_renew:
            state.lock_until_ms = partition.lock(first, last, now_ms)
        else:
            raise KafkaError(
                error_codes.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
            )


def _state_after(partition: SharePartition, acknowledged_as: int) -> int:
    """The state of a record after an acknowledgement."""
    if acknowledged_as == REJECT and partition.settings.dead_letters:
        return ARCHIVING
    return _STATES[acknowledged_as]


def _check(state: RecordState, member_id: str, what: str) -> None:
    """Whether a member may acknowledge records in a state."""
    if state.is_changing or state.state != ACQUIRED:
        raise KafkaError(error_codes.INVALID_RECORD_STATE, f"The {what} cannot be acknowledged. It is not acquired.")
    if state.member_id != member_id:
        raise KafkaError(error_codes.INVALID_RECORD_STATE, f"Member is not the owner of {what}")
