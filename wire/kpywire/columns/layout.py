"""The layout of a section: the places of the bytes that say where its records and their fields lie.

Producers send batch after batch of records that are alike. A section that has the same bytes in these places as one
before has its records, keys and values in the same places, too: only its timestamps are decoded.

Invariant: the fields of a section that has a layout are those that `record_positions` and `fields_of` find.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from kpywire.columns.record_positions import record_positions
from kpywire.columns.schema import KEY, TIMESTAMP, VALUE
from kpywire.columns.sections import NO_SLICES, ByteSlices, RecordFields, fields_of
from kpywire.columns.varints import Bytes, Positions, after_varints, varints, varlongs
from kpywire.varint import Buffer

SMALLEST_MEAN_BYTES: Final = 32
"""Sections of smaller records get no layout, since it would take a multiple of their memory."""
LARGEST_BYTES: Final = 2 * 1024 * 1024
"""Larger sections get none, since layouts stay in memory, where one takes a multiple of its section."""
MOST_KNOWN: Final = 4
Shape = tuple[int, int]
"""The records of a section, and its bytes."""
MOST_MISSES: Final = 8
"""The layouts in a row that no other section had, after which a log's records do not count as alike."""


class SectionLayout:
    """The places of the records of a section, and of their fields."""

    def __init__(self, section: Bytes, positions: Positions, fields: RecordFields) -> None:
        """``fields`` are those of the records at ``positions``, which have no headers."""
        self.positions = positions
        self._fields = fields
        self._times = after_varints(section, positions) + 1  # behind the length come attributes, which mean nothing
        after_times = varlongs(section, self._times)[1]
        (keys, key_lengths), (values, value_lengths) = fields.keys, fields.values
        key_ends, value_ends = keys + np.maximum(key_lengths, 0), values + np.maximum(value_lengths, 0)
        ends = varints(section, value_ends)[1]
        starts = np.concatenate((positions, after_times, key_ends, value_ends))
        exact = _between(starts, np.concatenate((self._times - 1, keys, values, ends)))
        going = _between(self._times, after_times)
        places = np.concatenate((exact, going))
        masks = np.full(len(places), 0xFF, np.uint8)
        masks[len(exact) :] = 0x80  # of a timestamp only its number of bytes has to be the same
        order = np.argsort(places)
        self._places, self._masks = places[order], masks[order]
        self._expected = section.take(self._places) & self._masks

    def fits(self, section: Bytes) -> bool:
        """Whether a section of the same size has this layout."""
        found = section.take(self._places)
        found &= self._masks
        return bool((found == self._expected).all())

    def fields_in(self, data: Bytes, starts: Sequence[int], columns: Collection[str]) -> RecordFields:
        """The fields of the sections that begin at ``starts``, as far as ``columns`` need them."""
        fields, first = self._fields, np.array(starts, np.int64)[:, None]
        times = fields.timestamp_deltas[:0]
        if TIMESTAMP in columns:
            times, _ = varlongs(data, (first + self._times).ravel())
        keys, values = (
            ByteSlices((first + slices.starts).ravel(), np.tile(slices.lengths, len(starts)))
            if is_wanted
            else NO_SLICES
            for slices, is_wanted in ((fields.keys, KEY in columns), (fields.values, VALUE in columns))
        )
        return RecordFields(
            timestamp_deltas=times,
            offset_deltas=np.tile(fields.offset_deltas, len(starts)),
            keys=keys,
            values=values,
            header_counts=np.tile(fields.header_counts, len(starts)),
            header_keys=NO_SLICES,
            header_values=NO_SLICES,
        )


class Layouts:
    """The layouts of the last sections of a log."""

    def __init__(self) -> None:
        self._known: dict[Shape, SectionLayout] = {}
        self._last: Shape | None = None
        self._misses = 0

    def of(self, buffer: Buffer, start: int, end: int, count: int) -> SectionLayout | None:
        """The layout of a section; None if it is to be decoded without one. Raises Malformed."""
        if self._misses >= MOST_MISSES:
            return None
        shape = count, end - start
        section = np.frombuffer(buffer, np.uint8)[start:end]
        layout, last, self._last = self._known.pop(shape, None), self._last, shape
        if layout is not None:
            if not layout.fits(section):
                return None
            self._misses = 0
        elif shape == last:
            layout = _layout_of(section, buffer, start, end, count)
            self._misses += 1
        if layout is not None:
            self._known[shape] = layout
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return layout


def _layout_of(section: Bytes, buffer: Buffer, start: int, end: int, count: int) -> SectionLayout | None:
    if not 0 < count * SMALLEST_MEAN_BYTES <= len(section) <= LARGEST_BYTES:
        return None
    positions = np.concatenate(record_positions(buffer, start, end, count))
    fields = fields_of(section, positions, np.append(positions[1:], len(section)))
    return None if fields.header_counts.any() else SectionLayout(section, positions, fields)


def _between(starts: Positions, ends: Positions) -> Positions:
    """All positions from each start up to its end."""
    lengths = ends - starts
    after = np.cumsum(lengths)
    total = int(after[-1])
    return np.repeat(starts - after + lengths, lengths) + np.arange(total)
