"""One partition of ``__remote_log_metadata`` as this node has read it, and the replay of its records into it.

The records come from a log of this node (`kpybroker.hosts.remote_log.metadata_log`) or from another broker
(`kpybroker.hosts.remote_log.metadata_feed`), always committed ones in their order. A damaged record, and one of a newer
version, is left out, and logged once.

Invariant: ``known`` has applied a whole beginning of the partition, which is never shorter than before, but after an
unclean election: then it stays until the new log was read.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata
from kpybroker.machines.remote_log.segments import Record
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
)
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.record import plain_records, read_batch
from kpywire.remote_log_record import TOPIC

log = logging.getLogger("kpybroker.remote_log")

RECORDS_PER_STEP: Final = 32
NO_EPOCH: Final = -1


class ViewWatch:
    """The functions that a view calls."""

    def __init__(
        self, applied: Callable[["MetadataView", Record], object], ready: Callable[["MetadataView"], object]
    ) -> None:
        self.applied = applied
        """Called with each record that was applied, once the view is ready."""
        self.ready = ready
        """Called when the view was read to its end: at first, and again after an unclean election."""


class ViewSource(Protocol):
    """The place from which a view is read."""

    def look(self) -> None:
        """Ask for the end of the partition if the view lacks it."""


class MetadataView:
    """A partition of the topic, and the place up to which it was read."""

    def __init__(self, index: int, watch: ViewWatch) -> None:
        self.index = index
        self.known: RemoteLogMetadata | None = None
        """The content for those who ask; None until the partition was read to its end once."""
        self.reader: ViewSource | None = None
        """The source that reads it at present. Another one stops at its next step."""
        self.next_offset = 0
        self.last_epoch = NO_EPOCH
        """The leader epoch of the last batch."""
        self.ready_at: int | None = None
        """The end of the partition when it was last asked for; None until the leader has said it."""
        self._filling = RemoteLogMetadata()
        self._watch = watch
        self._waiting: list[Callable[[], object]] = []
        """Called when the end is reached."""
        self._records = 0
        self._has_damage = False

    def __str__(self) -> str:
        return f"{TOPIC}-{self.index}"

    @property
    def is_ready(self) -> bool:
        """Whether it was read to the end, and is not being read again."""
        return self.known is self._filling

    # Places

    def begin(self, reader: ViewSource) -> None:
        """Another source reads it from now on, whose end it has to reach if it is not ready."""
        self.reader = reader
        if not self.is_ready or self._waiting:
            self.ready_at = None

    def catch_up(self, done: Callable[[], object]) -> None:
        """Call ``done`` when all is known that is committed now."""
        self._waiting.append(done)
        self.ready_at = None
        if self.reader is not None:
            self.reader.look()

    def begin_again(self, offset: int) -> None:
        """Read the partition again from its start, at ``offset``: records that were read are in the log no more."""
        if self.next_offset:
            log.error("%s was cut below offset %d, and is read again from the start", self, self.next_offset)
        self._filling = RemoteLogMetadata()
        self.next_offset, self.last_epoch, self.ready_at = offset, NO_EPOCH, None

    def begins_later(self, offset: int) -> None:
        """Go on at the start of the log, since the records before it are gone."""
        if self.next_offset:
            log.error("%s: the records from offset %d to %d were deleted unread", self, self.next_offset, offset - 1)
        self.next_offset, self.last_epoch = offset, NO_EPOCH

    def reached(self) -> None:
        """Look whether the end is reached."""
        if self.ready_at is None or self.next_offset < self.ready_at:
            return
        if not self.is_ready:
            self.known = self._filling
            log.info("%s was read up to offset %d, with %d records", self, self.next_offset, self._records)
            self._watch.ready(self)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    # Records

    def steps(self, data: bytes | memoryview) -> Iterator[None]:
        """Apply the batches in ``data``; yields after each piece of work. Ends early when another source reads.

        Raises Malformed if no batch begins where one has to.
        """
        data, reader, before = bytes(data), self.reader, self.next_offset
        view, position, end, since = memoryview(data), 0, len(data), 0
        while position + HEADER_BYTES <= end and self.reader is reader:
            header = BatchHeader._make(HEADER.unpack_from(data, position))
            following = position + header.batch_length + LENGTH_END
            if header.magic != MAGIC or following < position + HEADER_BYTES or header.next_offset <= header.base_offset:
                raise Malformed(f"no batch can begin as what stands behind offset {self.next_offset - 1}")
            if following > end:
                break
            if header.next_offset > self.next_offset:
                self.last_epoch = header.partition_leader_epoch
                if crc32c(view[position + ATTRIBUTES_POSITION : following]) != header.crc:
                    self._damage(f"a batch at offset {header.base_offset} has another CRC than it declares")
                elif not header.attributes & CONTROL_MASK:
                    yield from self._apply(data, header, position, reader)
                if self.reader is not reader:
                    return
                self.next_offset = header.next_offset
                self._records += header.record_count
                since += header.record_count
                if since >= RECORDS_PER_STEP:
                    since = 0
                    yield
            position = following
        if self.reader is not reader:
            return
        if self.next_offset == before and end:
            raise Malformed(f"nothing can be read at offset {before}")
        self.reached()

    def _apply(self, data: bytes, header: BatchHeader, position: int, reader: ViewSource | None) -> Iterator[None]:
        machine, is_ready, watch = self._filling, self.is_ready, self._watch
        try:
            for count, (offset, _, value) in enumerate(_records(data, header, position), 1):
                if self.next_offset <= offset < header.next_offset:
                    record = self._record(value, offset)
                    self.next_offset = offset + 1
                    if record is not None:
                        machine.apply(record)
                        if is_ready:
                            watch.applied(self, record)
                if count % RECORDS_PER_STEP == 0:
                    yield
                    if self.reader is not reader:
                        return
        except Malformed as error:
            self._damage(f"a batch at offset {header.base_offset}: {error}")

    def _record(self, value: bytes | None, offset: int) -> Record | None:
        try:
            if value is None:
                raise Malformed("it has no value")
            return read_value(value)
        except Malformed as error:
            self._damage(f"a record at offset {offset}: {error}")
            return None

    def _damage(self, what: str) -> None:
        if not self._has_damage:
            self._has_damage = True
            log.error("%s: records that cannot be read are left out; the first is %s", self, what)


def _records(data: bytes, header: BatchHeader, position: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """The (offset, key, value) of the records of a batch."""
    if header.attributes & CODEC_MASK:
        return ((record.offset, record.key, record.value) for record in read_batch(data, header, position))
    section = data[position + HEADER_BYTES : position + header.size]
    return plain_records(section, header.record_count, header.base_offset)
