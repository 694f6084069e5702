"""Giving records to a member (Kafka: ``SharePartition.acquire``).

``batch_optimized`` gives whole batches of the log until there are ``max_records``. ``record_limit`` gives at most that
many (KIP-1206). Records that were delivered often are suspected of making their readers fail: they are given in small
numbers, and at their last attempt one by one, so that one bad record does not take its neighbours with it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.machines.share import archiving
from kpybroker.machines.share.in_flight import InFlightBatch
from kpybroker.machines.share.partition import SharePartition
from kpybroker.machines.share.record_state import ACQUIRED, RecordState

LEAST_LIMIT_WITH_LAST_ATTEMPT = 2
"""Up to this delivery limit, a last attempt is treated like any other."""


class LogBatch(NamedTuple):
    """A batch of the log that was read."""

    base_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Records that a member got, with the number of deliveries including this one."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcquireRequest(NamedTuple):
    """The wish of a member."""

    member_id: str
    max_records: int
    batch_size: int
    """The size from which new records are divided at batches of the log."""
    is_limit: bool = False
    """Whether ``max_records`` is strict (``record_limit``)."""


def acquire(
    partition: SharePartition, request: AcquireRequest, fetch_offset: int, read: Sequence[LogBatch], now_ms: int
) -> list[Acquired]:
    """Give records to a member, out of those that were read from ``fetch_offset`` on."""
    if request.max_records <= 0 or not read or read[-1].last_offset < partition.start_offset:
        return []
    last_offset, most = _bounds(partition, request.max_records, fetch_offset, read[-1].last_offset)
    if most <= 0:
        return []
    return _Acquiring(partition, request, read, now_ms).acquire(fetch_offset, last_offset, most)


def _bounds(partition: SharePartition, wanted: int, fetch_offset: int, last_offset: int) -> tuple[int, int]:
    """The last offset and the number of records that may be given, as the limit of records in flight allows."""
    most = min(wanted, partition.settings.max_record_locks - partition.in_flight_count)
    if most > 0:
        return last_offset, most
    if fetch_offset > partition.end_offset:
        return last_offset, 0
    # Records that came back can be given, or nobody could go on.
    end_offset = partition.end_offset
    return min(last_offset, end_offset), min(wanted, end_offset - fetch_offset + 1)


class _Acquiring:
    """One member's turn."""

    def __init__(
        self, partition: SharePartition, request: AcquireRequest, read: Sequence[LogBatch], now_ms: int
    ) -> None:
        self.partition = partition
        self.request = request
        self.read = read
        self.now_ms = now_ms
        self.delivery_limit = partition.settings.delivery_limit
        self.suspect_from = max(2, -(-self.delivery_limit // 2))
        """The number of deliveries from which records are suspected."""
        self.given: list[Acquired] = []
        self.count = 0

    def acquire(self, fetch_offset: int, last_offset: int, most: int) -> list[Acquired]:
        partition, first_base = self.partition, self.read[0].base_offset
        archiving.archive_gap(partition, fetch_offset, first_base)
        base_offset = first_base
        floor = partition.floor(base_offset)
        if floor is None:
            base_offset = max(base_offset, partition.start_offset)
        elif floor.last_offset >= base_offset:
            base_offset = floor.first_offset
        if base_offset > last_offset:
            return []  # the log lost the records that could be given again, and there is no room for others
        known = partition.between(min(first_base, base_offset), last_offset)
        if not known:
            self._acquire_new(base_offset, last_offset, most)
            return self.given
        gap_start = base_offset
        for batch in known:
            if self.count >= most:
                break
            if partition.gap_start is not None:
                if gap_start < batch.first_offset:
                    self._acquire_new(gap_start, batch.first_offset - 1, most - self.count)
                gap_start = batch.last_offset + 1
                if self.count >= most:
                    break
            if self._acquire_known(batch, first_base, last_offset, most):
                most = 0
        if self.count < most and known[-1].last_offset < last_offset:
            self._acquire_new(known[-1].last_offset + 1, last_offset, most - self.count)
        if self.given:
            partition.close_gaps_until(self.given[-1].last_offset + 1)
        elif most:  # else the same batches would be read for ever; in Kafka no member could go on then
            partition.close_gaps_until(last_offset + 1)
        return self.given

    # Records that were in flight before

    def _acquire_known(self, batch: InFlightBatch, first_base: int, last_offset: int, most: int) -> bool:
        """Give what is free of a batch. Whether nothing may follow it."""
        is_within = batch.lies_within(first_base, last_offset)
        room = most - self.count
        is_suspect = self._is_suspect(batch, first_base, last_offset)
        if is_suspect and self.count > 0:
            return True
        size = batch.last_offset - batch.first_offset + 1
        too_large = self.request.is_limit and batch.whole is not None and size > room
        if not is_within or batch.whole is None or too_large or is_suspect:
            if batch.whole is not None:
                if not batch.whole.is_free:
                    return False
                batch.split()
            given = self._acquire_offsets(batch, first_base, last_offset, room)
            self.count += given
            return is_suspect and given > 0
        if batch.whole.is_free:
            self._give(batch.whole, batch.first_offset, batch.last_offset)
            self.given.append(Acquired(batch.first_offset, batch.last_offset, batch.whole.delivery_count))
            self.count += size
        return False

    def _is_suspect(self, batch: InFlightBatch, first_base: int, last_offset: int) -> bool:
        free = [state.delivery_count for _, _, state in batch.ranges(first_base, last_offset) if state.is_free]
        return bool(free) and max(free) >= self.suspect_from

    def _acquire_offsets(self, batch: InFlightBatch, first_base: int, last_offset: int, room: int) -> int:
        given: list[Acquired] = []
        count, most_suspects = 0, -1
        for offset, _, state in batch.ranges(first_base, last_offset):
            if not state.is_free:
                continue
            is_last_attempt = state.delivery_count == self.delivery_limit - 1
            if self.delivery_limit > LEAST_LIMIT_WITH_LAST_ATTEMPT and is_last_attempt and count > 0:
                break
            if most_suspects < 0 and state.delivery_count >= self.suspect_from:
                most_suspects = max(1, len(batch.offsets) >> (state.delivery_count - self.suspect_from + 1))
            self._give(state, offset, offset)
            given.append(Acquired(offset, offset, state.delivery_count))
            count += 1
            if self.delivery_limit > LEAST_LIMIT_WITH_LAST_ATTEMPT and is_last_attempt:
                break
            if count == most_suspects or (self.request.is_limit and count == room):
                break
        _accumulate(given, self.given)
        return count

    def _give(self, state: RecordState, first_offset: int, last_offset: int) -> None:
        state.acquire(self.request.member_id, self.partition.lock(first_offset, last_offset, self.now_ms))

    # Records that were not in flight before

    def _acquire_new(self, first_offset: int, last_offset: int, room: int) -> None:
        partition = self.partition
        if partition.is_empty and partition.end_offset > first_offset:
            first_offset = partition.end_offset
        end = last_offset
        if room < last_offset - first_offset + 1:
            end = self._end_of_batch(first_offset + room - 1)
            if partition.gap_start is not None:
                end = min(end, last_offset)
        given = self._divided(first_offset, end)
        if self.request.is_limit:
            given = [self._limited(given[0], room)]
        for each in given if not self.request.is_limit else ():
            partition.add(self._new(each.first_offset, each.last_offset))
        if next(iter(partition)).first_offset == first_offset:
            partition.start_offset = first_offset
        partition.end_offset = max(partition.end_offset, end)
        last_given = given[-1].last_offset if self.request.is_limit else end
        partition.close_gaps_until(last_given + 1)
        self.given += given
        self.count += last_given - first_offset + 1

    def _limited(self, given: Acquired, room: int) -> Acquired:
        """Keep the batch whole, but give only the first records of it."""
        partition = self.partition
        if given.last_offset - given.first_offset + 1 <= room:
            partition.add(self._new(given.first_offset, given.last_offset))
            return given
        last_acquired = given.first_offset + room - 1
        batch = self._new(given.first_offset, given.last_offset)
        batch.split_acquired(last_acquired)
        partition.add(batch)
        partition.finds_next_offset = True
        return given._replace(last_offset=last_acquired)

    def _new(self, first_offset: int, last_offset: int) -> InFlightBatch:
        until_ms = self.partition.lock(first_offset, last_offset, self.now_ms)
        return InFlightBatch(first_offset, last_offset, RecordState(ACQUIRED, 1, self.request.member_id, until_ms))

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the log's batch that holds an offset."""
        found = None
        for batch in self.read:
            if batch.base_offset > offset:
                break
            found = batch
        return offset if found is None or found.last_offset < offset else found.last_offset

    def _divided(self, first_offset: int, last_offset: int) -> list[Acquired]:
        given = []
        begin = first_offset
        if not self.request.is_limit and last_offset - first_offset + 1 > self.request.batch_size:
            for batch in self.read:
                if batch.base_offset > last_offset:
                    break
                if batch.base_offset - begin >= self.request.batch_size:
                    given.append(Acquired(begin, batch.base_offset - 1, 1))
                    begin = batch.base_offset
        return [*given, Acquired(begin, last_offset, 1)]


def _accumulate(new: Sequence[Acquired], given: list[Acquired]) -> None:
    """Add single records to those given; neighbours with equal numbers of deliveries become one range."""
    start = len(given)
    for each in new:
        before = given[-1] if len(given) > start else None
        if before and before.last_offset + 1 == each.first_offset and before.delivery_count == each.delivery_count:
            given[-1] = before._replace(last_offset=each.last_offset)
        else:
            given.append(each)
