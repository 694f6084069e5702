"""Writing records to one partition of ``__remote_log_metadata``: in order, many in a batch, until each is in the log.

A write is settled when this node applies an equal record of the log. So it does not matter who leads the partition,
which answer was lost, or how often a batch was sent: a record that is there twice changes nothing. A record that would
change nothing from the outset is refused before it is sent.

Invariant: one batch is under way at a time, and what follows waits until all of it is settled. Records that are written
together are in one batch, however often it is sent, or in none. ``done`` of a write is called once, unless the node
stops.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log.metadata_values import written_value
from kpybroker.hosts.remote_log.metadata_view import MetadataView
from kpybroker.machines.remote_log.cache import RecordVerdict
from kpybroker.machines.remote_log.metadata import PartitionKey, RecordRefusal, key_of
from kpybroker.machines.remote_log.segments import Record, RemotePartitionDelete
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes
from kpywire.record import encode_record, plain_batch_of

log = logging.getLogger("kpybroker.remote_log")

Done = Callable[[str | None], object]
"""A callback: None for a record that is committed and applied here, or the reason why it is not in the log."""
Append = Callable[[int, bytes, Callable[[int], object]], object]
"""(partition, batch, called with an error code) appends a batch at the partition's leader."""

BATCH_BYTES: Final = 256 * 1024
BATCH_RECORDS: Final = 500
FIRST_RETRY_MS: Final = 50
LAST_RETRY_MS: Final = 5_000
SEEN_WITHIN_MS: Final = 30_000
"""A batch that was appended and is not read within this time is appended again: its log may have been cut."""
TOO_LARGE: Final = frozenset({error_codes.MESSAGE_TOO_LARGE, error_codes.RECORD_LIST_TOO_LARGE})
NEW_LEADER: Final = frozenset({error_codes.LEADER_NOT_AVAILABLE, error_codes.NOT_LEADER_OR_FOLLOWER})
"""Errors of the time between two leaders."""


class _MetadataBatch(NamedTuple):
    """Records that are sent together."""

    records: list[Record]
    values: list[bytes]

    def add(self, record: Record, value: bytes) -> None:
        self.records.append(record)
        self.values.append(value)

    def encoded(self, now_ms: int) -> bytes:
        section = b"".join([encode_record(delta, 0, None, value) for delta, value in enumerate(self.values)])
        return plain_batch_of(section, len(self.values), 0, -1, now_ms)


class MetadataWriter:
    """The writes of this node to one partition."""

    def __init__(self, view: MetadataView, scheduler: Scheduler, append: Append) -> None:
        self._view = view
        self._scheduler = scheduler
        self._append = append
        self._writes: dict[Record, list[Done]] = {}
        """All that are not settled, in their order."""
        self._together: dict[Record, _Together] = {}
        """The records that are written together with others."""
        self._sent: set[Record] = set()
        """The records of the batch that is under way, which come first."""
        self._attempt = 0
        """Increased with each batch, so that a late answer is recognised."""
        self._most_records = BATCH_RECORDS
        self._failures = 0
        self._problem = ""
        self._timer: Timer | None = None
        self._wakes = False

    @property
    def is_idle(self) -> bool:
        """Whether everything is settled."""
        return not self._writes

    def write(self, record: Record, done: Done) -> None:
        """Write a record after those before it."""
        self._writes.setdefault(record, []).append(done)
        self.wake()

    def write_together(self, records: tuple[Record, ...], done: Done) -> None:
        """Write records after those before them, all in one batch or none. They are about different segments."""
        together = _Together(records, done)
        for record in records:
            self._together[record] = together
            self._writes.setdefault(record, []).append(partial(together.settled, record))
        self.wake()

    def wake(self) -> None:
        """Send a batch when this turn is over, since others may come, unless one is under way."""
        if not self._wakes:
            self._wakes = True
            self._scheduler.call_soon(self._go)

    def leader_moved(self) -> None:
        """Send again what was not settled: the former leader may not have had the time to commit it."""
        if self._sent:
            self._again(FIRST_RETRY_MS)
        else:
            self.wake()

    def applied(self, record: Record) -> None:
        """A record of the log was applied. Settles an equal write."""
        settled = self._writes.pop(record, None)
        if settled is None:
            return
        self._together.pop(record, None)
        self._sent.discard(record)
        if not self._sent:
            self._failures, self._problem = 0, ""
            self._stop_timer()
            self.wake()
        _tell(record, settled, None)

    def stop(self) -> list[tuple[Record, Done]]:
        """Write nothing more. Returns what is not settled."""
        for each in set(self._together.values()):
            self._refuse_together(each, "the topic is not read any more")
        unsettled = [(record, done) for record, waiting in self._writes.items() for done in waiting]
        self._writes.clear()
        self._sent.clear()
        self._stop_timer()
        self._attempt += 1
        return unsettled

    # Sending

    def _go(self) -> None:
        self._wakes = False
        known = self._view.known
        if self._sent or not self._writes or self._timer is not None or known is None or not self._view.is_ready:
            return
        batch = self._next_batch()
        if not batch.records:
            if self._writes:
                self.wake()
            return
        self._sent.update(batch.records)
        self._attempt += 1
        attempt = self._attempt
        self._wait(SEEN_WITHIN_MS)
        self._append(
            self._view.index,
            batch.encoded(self._scheduler.now_ms()),
            lambda code: self._answered(attempt, len(batch.records), code),
        )

    def _next_batch(self) -> _MetadataBatch:
        """The first records, as far as none depends on one before it. Those that would change nothing are refused."""
        batch, size_bytes, beside = _MetadataBatch([], []), 0, _Beside()
        refused: list[tuple[Record, RecordVerdict | RecordRefusal]] = []
        known = self._view.known
        assert known is not None
        refused_together: list[tuple[_Together, str]] = []
        for record in self._writes:
            together = self._together.get(record)
            if together is not None:
                if batch.records or refused:
                    break  # it has a batch of its own
                refusals = [found for each in together.records if (found := known.refusal(each)) is not None]
                if refusals and not together.was_sent:
                    refused_together.append((together, refusals[0].value))
                else:
                    together.was_sent = True
                    for each in together.records:
                        if each in self._writes:  # not one that was read already
                            batch.add(each, written_value(each))
                break
            if beside.has_to_wait(record) or len(batch.records) + len(refused) >= self._most_records:
                break
            refusal = known.refusal(record)
            if refusal is not None:
                refused.append((record, refusal))
                continue
            value = written_value(record)
            size_bytes += len(value)
            if batch.records and size_bytes > BATCH_BYTES:
                break
            beside.add(record)
            batch.add(record, value)
        for record, refusal in refused:
            _tell(record, self._writes.pop(record), refusal.value)
        for group, reason in refused_together:
            self._refuse_together(group, reason)
        return batch

    def _refuse_together(self, group: "_Together", reason: str) -> None:
        for record in group.records:
            self._together.pop(record, None)
            _tell(record, self._writes.pop(record, []), reason)

    def _answered(self, attempt: int, count: int, code: int) -> None:
        if attempt != self._attempt or not self._sent or code == error_codes.NONE:
            return
        if code in TOO_LARGE and count == 1:
            (record,) = self._sent
            self._sent.clear()
            self._stop_timer()
            self.wake()
            _tell(record, self._writes.pop(record), "its record is larger than the topic allows")
        elif code in TOO_LARGE and (group := self._together.get(next(iter(self._sent)))) is not None:
            self._sent.clear()
            self._stop_timer()
            self.wake()
            self._refuse_together(group, "its records are larger than the topic allows")
        elif code in TOO_LARGE:
            self._most_records = 1
            self._again(0)
        else:
            self._failed(error_codes.name(code), is_expected=code in NEW_LEADER)

    def _failed(self, reason: str, *, is_expected: bool) -> None:
        if reason != self._problem:
            self._problem = reason
            level = logging.INFO if is_expected else logging.WARNING
            log.log(
                level, "%s: %d records cannot be written, it is tried again: %s", self._view, len(self._sent), reason
            )
        self._again(min(FIRST_RETRY_MS << min(self._failures, 20), LAST_RETRY_MS))
        self._failures += 1

    def _again(self, wait_ms: float) -> None:
        """Send the batch again after a pause. An answer to the last attempt does not count any more."""
        self._attempt += 1
        self._sent.clear()
        self._wait(wait_ms)

    def _wait(self, wait_ms: float) -> None:
        self._stop_timer()
        self._timer = self._scheduler.call_later(wait_ms, self._waited)

    def _waited(self) -> None:
        self._timer = None
        if self._sent:
            self._failed("the leader does not answer", is_expected=False)
        else:
            self.wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Together:
    """Records that are written in one batch."""

    def __init__(self, records: tuple[Record, ...], done: Done) -> None:
        self.records = records
        self.was_sent = False
        """Whether a batch with them may be in the log, so that they are written whatever has become known since."""
        self._done = done
        self._left = set(records)

    def settled(self, record: Record, reason: str | None) -> None:
        """One of the records is in the log, and so are the others, which may be read in a later turn; or none is."""
        was_left = bool(self._left)
        self._left.discard(record)
        if reason is not None:
            self._left.clear()
        if was_left and not self._left:
            self._done(reason)


class _Beside:
    """The records of a batch, for those that might follow in it."""

    def __init__(self) -> None:
        self._segments: set[bytes] = set()
        self._deletions: set[PartitionKey] = set()

    def add(self, record: Record) -> None:
        if isinstance(record, RemotePartitionDelete):
            self._deletions.add(key_of(record))
        else:
            self._segments.add(record.id.segment_id)

    def has_to_wait(self, record: Record) -> bool:
        """Whether it can be judged only when one of these is applied."""
        if key_of(record) in self._deletions:
            return True
        return not isinstance(record, RemotePartitionDelete) and record.id.segment_id in self._segments


def _tell(record: Record, settled: list[Done], reason: str | None) -> None:
    for done in settled:
        try:
            done(reason)
        except Exception:
            log.exception("The end of a write about %s-%d could not be handled because of a defect", *key_of(record))
