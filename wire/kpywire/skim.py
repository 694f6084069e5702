"""The check that a broker makes of a batch's records at every produce, most of it without a step per record.

Records of one producer look alike. After one record is taken apart, the others of its size are checked field by field:
the same byte of each is one strided slice, and one comparison of slices checks all of them. Records of different sizes
with keys of one size are first lined up into such columns. Records that fit neither are walked (:mod:`kpywire.walk`).

Not here: inflating, and the demands of a topic's configs (timestamps, keys).

Invariant: the outcome is that of :func:`kpywire.walk.walk` over the whole section, whatever the bytes.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from sys import byteorder
from types import FunctionType
from typing import Final, Literal, NamedTuple

from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.varint import Buffer, as_int64, decode_varint, decode_varlong
from kpywire.walk import MOST_STEPS, InvalidRecord, Stretch, TooLaborious, frames, walk

_FEW: Final = 24
"""Fewer records than this are walked sooner than they are compared."""
_MANY: Final = 128
"""The same limit for records of different sizes, and the reach of the first attempt with them; four times as far after
success."""
_STRETCH: Final = 256
"""The number of records that are walked before the next attempt to find equal ones."""
_WALKED: Final = _FEW + 1 if isinstance(walk, FunctionType) else 1 << 12
"""Batches of at most this many records are walked without an attempt. Where walking is compiled, that takes 13 ns per
record."""

_EQUAL_PER_STEP: Final = 64
_UNEVEN_PER_STEP: Final = 4
"""The records of equal or of different sizes that are compared in the time of walking one."""

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_SURELY_LEAST: Final = -(1 << 61)
_SURELY_MOST: Final = 1 << 61
"""Timestamps within these are of 64 bits. Compiled code compares them without an object; those of 63 bits it does
not."""

_ALL_BYTES: Final = bytes(range(256))
_CONTINUED: Final = bytes(byte >> 7 for byte in range(256))
_ODD: Final = bytes(byte & 1 for byte in range(256))

_BLOCK: Final = 8192
_OFFSET_ALONE: Final = bytes(range(0, 128, 2))
_OFFSET_LOW: Final = bytes(range(128, 256, 2)) * 128
_OFFSET_HIGH: Final = b"".join(bytes((group,)) * 64 for group in range(128))
_OFFSET_MIDDLE: Final = b"".join(bytes((group | 128,)) * 64 for group in range(128))

_WORDS: Final[dict[int, tuple[int, Literal["H", "I", "Q"]]]] = {
    2: (2, "H"),
    3: (4, "I"),
    4: (4, "I"),
    5: (8, "Q"),
    6: (8, "Q"),
    7: (8, "Q"),
    8: (8, "Q"),
}
"""The machine word that holds a timestamp delta, by its number of bytes: its own bytes, and its ``struct`` format."""

_Column = Callable[[int], bytes]
"""The byte at one place of each record, in the order of the records."""


class Skim(NamedTuple):
    """The facts about the records of a batch."""

    min_timestamp: int
    max_timestamp: int
    in_order: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    keyed: bool
    """Whether every record has a key."""


class _Layout(NamedTuple):
    """The places of the fields of one record, counted from its start. Other records of a run may differ in ``size``."""

    size: int
    timestamp: int
    offset: int
    key: int
    key_start: int
    value: int
    value_start: int
    headers: tuple[int, ...]
    """The places of the header count and of the lengths of the headers."""
    timestamp_delta: int
    keyed: bool


class _Run(NamedTuple):
    """Records that were checked together: their number, the facts about them, and where they end."""

    taken: int
    lowest: int
    highest: int
    keyed: bool
    following: int
    steps: int
    """The records that are walked in the same time."""


def skim(header: BatchHeader, section: Buffer) -> Skim:
    """Check the (inflated) record section of a batch against its header.

    Raises:
        InvalidRecord: the section does not hold exactly ``header.record_count`` records, or one contradicts itself.
        TooLaborious: too many records differ from their neighbours, or have too many headers, to look at each.
    """
    return Skim._make(skim_section(section, header.record_count, header.base_timestamp))


def skim_section(
    section: Buffer, count: int, base_timestamp: int, start: int = 0, most_steps: int = MOST_STEPS
) -> tuple[int, int, bool, bool]:
    """Like :func:`skim`, for callers where the number of tuples matters. The records begin at ``start``.

    With fewer than `MOST_STEPS` as ``most_steps``, records that are compared count as steps too (`_Run.steps`).
    """
    if type(section) is not bytes:
        section = bytes(section)
    try:
        if count > _WALKED:
            stretch = _look(section, start, count, most_steps)
        else:
            stretch = walk(section, start, 0, count, most_steps)
    except TooLaborious:
        if count > _WALKED or count <= _FEW + 1:
            raise
        stretch = _look(section, start, count, most_steps)  # they may be alike
    lowest, highest, in_order, keyed, position, _headers = stretch
    if position != len(section):
        raise InvalidRecord(f"{len(section) - position} bytes follow the last of {count} records")
    lowest += base_timestamp
    highest += base_timestamp
    if (lowest < _SURELY_LEAST or highest > _SURELY_MOST) and (lowest < _INT64_MIN or highest > _INT64_MAX):
        if count > most_steps:
            raise TooLaborious(f"{count} records whose timestamps overflow")
        records = section[start:]
        timestamps = [as_int64(base_timestamp + frame.timestamp_delta) for frame in frames(records, count)]
        lowest, highest = min(timestamps), max(timestamps)
    return lowest, highest, in_order, keyed


def _look(section: bytes, position: int, count: int, most_steps: int) -> Stretch:
    """Do the same as :func:`walk`, in runs of records that look alike and stretches of others."""
    lowest: list[int] = []
    highest: list[int] = []
    in_order = keyed = True
    index = steps = headers = compared = 0
    reach = _MANY
    while index < count:
        run = _next_run(section, position, index, count, reach, most_steps)
        if run is not None:
            taken, low, high, has_key, position, run_steps = run
            reach *= 4 if taken > reach else 1
            compared += run_steps
        else:
            taken = 64 - index if index < 64 else _STRETCH
            taken = min(taken, count - index)
            reach = reach if index < 64 else 0
            low, high, ordered, has_key, position, count_of_headers = walk(
                section, position, index, index + taken, most_steps
            )
            in_order = in_order and ordered
            headers += count_of_headers
            steps += taken
            if steps > MOST_STEPS or headers > MOST_STEPS:
                raise TooLaborious(f"more than {MOST_STEPS} records or headers in a batch that do not look alike")
        if most_steps < MOST_STEPS and steps + headers + compared > most_steps:
            raise TooLaborious(f"more than {most_steps} steps")
        index += taken
        lowest.append(low)
        highest.append(high)
        keyed = keyed and has_key
    return min(lowest), max(highest), in_order, keyed, position, headers


def _next_run(section: bytes, start: int, index: int, count: int, reach: int, most_headers: int) -> _Run | None:
    """The run of records that begins with the one at ``start``, or None if walking is no slower.

    ``reach`` is the number of records of different sizes to try: none after records that were too different.
    """
    most = min(count, _same_offset_width(index)) - index - 1
    if most < _FEW:
        return None
    try:
        length, body = decode_varint(section, start)
    except Malformed:
        return None
    equal = section.startswith(section[start:body], body + length)
    uneven = reach > 0 and most >= _MANY
    layout = _layout(section, start, index, most_headers) if equal or uneven else None
    run = None
    if layout is not None and equal:
        run = _equal_run(section, start, index, most, layout)
    if layout is not None and uneven and run is None:
        run = _uneven_run(section, start, index, min(most, reach), layout)
    return run


def _layout(section: bytes, start: int, index: int, most_headers: int) -> _Layout | None:
    """The layout of the record at ``start``, or None if the record has to be walked: it is damaged or out of order."""
    headers: list[int] = []
    try:
        length, position = decode_varint(section, start)
        timestamp = position + 1
        timestamp_delta, offset = decode_varlong(section, timestamp)
        offset_delta, key = decode_varint(section, offset)
        key_bytes, key_start = decode_varint(section, key)
        value = key_start + max(key_bytes, 0)
        value_bytes, value_start = decode_varint(section, value)
        value_end = value_start + max(value_bytes, 0)
        header_count, end = decode_varint(section, value_end)
        if header_count > most_headers:
            return None
        headers += range(value_end - start, end - start)
        for number in range(2 * header_count):
            size, header_start = decode_varint(section, end)
            headers += range(end - start, header_start - start)
            end = header_start + max(size, 0)
            if size < 0 and number % 2 == 0:
                return None
    except Malformed:
        return None
    if header_count < 0 or end != position + length or end > len(section):
        return None
    if offset_delta != index or key - offset != _offset_width(index) or offset - timestamp > 8:
        return None
    return _Layout(
        size=end - start,
        timestamp=timestamp - start,
        offset=offset - start,
        key=key - start,
        key_start=key_start - start,
        value=value - start,
        value_start=value_start - start,
        headers=tuple(headers),
        timestamp_delta=timestamp_delta,
        keyed=key_bytes >= 0,
    )


def _offset_width(index: int) -> int:
    """Bytes of the offset delta ``index``; 0 where there is no table for it."""
    if index < 64:
        return 1
    if index < _BLOCK:
        return 2
    return 3 if index < 1 << 20 else 0


def _same_offset_width(index: int) -> int:
    """The first index after ``index`` that needs other columns of offset deltas."""
    return 64 if index < 64 else (index // _BLOCK + 1) * _BLOCK


def _offset_columns(index: int, count: int) -> tuple[bytes, ...]:
    """The columns of ``count`` offset deltas from ``index`` on, which all have the width of the first."""
    if index < 64:
        return (_OFFSET_ALONE[index : index + count],)
    first = index % _BLOCK
    low = _OFFSET_LOW[first : first + count]
    if index < _BLOCK:
        return low, _OFFSET_HIGH[first : first + count]
    return low, _OFFSET_MIDDLE[first : first + count], bytes((index // _BLOCK,)) * count


def _equal_run(section: bytes, start: int, index: int, most: int, layout: _Layout) -> _Run | None:
    """The records from ``start`` on that have the layout and the size of the first; at most ``most`` beside it."""
    size = layout.size
    others = min(most, (len(section) - start) // size - 1)
    stop = start + size * (others + 1)

    def column(place: int) -> bytes:
        return section[start + size + place : stop : size]

    same = others
    for place in chain(
        range(layout.timestamp - 1),
        range(layout.key, layout.key_start),
        range(layout.value, layout.value_start),
        layout.headers,
    ):
        same = min(same, _alike(column(place), section[start + place : start + place + 1] * others))
        if same < _FEW:
            return None
    steps = layout.size - layout.headers[0] + others // _EQUAL_PER_STEP
    return _run(column, index, same, others, layout, lambda taken: start + size * taken, steps)


def _uneven_run(section: bytes, start: int, index: int, most: int, layout: _Layout) -> _Run | None:
    """The run from ``start`` on of records whose values differ in size, as long as that size takes as many bytes as the
    first one's.

    Each record is expected where the length of the one before it says. Then the heads of all, each with the byte in
    front of it (the header count that ends the record before), are lined up into columns.
    """
    length_bytes = layout.timestamp - 1
    if length_bytes > 2 or layout.value_start - layout.value > 2 or section[start + layout.headers[0]]:
        return None
    starts = _starts(section, start, most + 1, length_bytes)
    while len(starts) > 1 and (starts[-1] > len(section) or starts[-2] + layout.value_start > len(section)):
        starts.pop()
    others = len(starts) - 2
    width = layout.value_start + 1
    heads = b"".join([section[place - 1 : place - 1 + width] for place in starts[1:-1]])
    if others < _FEW or len(heads) != others * width:
        return None

    def column(place: int) -> bytes:
        return heads[place + 1 :: width]

    ends = column(-1) + section[starts[-1] - 1 : starts[-1]]
    if len(ends) != others + 1:
        return None
    same = _alike(ends, bytes(others + 1)) - 1
    for place in range(layout.key, layout.key_start):
        same = min(same, _alike(column(place), section[start + place : start + place + 1] * others))
    for first, after in ((0, length_bytes), (layout.value, layout.value_start)):
        same = min(same, _same_width(column, first, after, others))
    ones = int.from_bytes(b"\x01\x00" * others, "little")
    values = _lanes(column, layout.value, layout.value_start, ones)
    excess = 2 * (layout.value_start + 1 - length_bytes)
    differing = _lanes(column, 0, length_bytes, ones) - values - excess * ones | values & ones
    if differing:
        same = min(same, _lowest_bit(differing) // 16)
    return _run(column, index, same, others, layout, starts.__getitem__, others // _UNEVEN_PER_STEP)


def _starts(section: bytes, start: int, most: int, length_bytes: int) -> list[int]:
    """The beginnings of the records from ``start`` on and the end of the last one, by their lengths alone."""
    starts = [start]
    append = starts.append
    try:
        if length_bytes == 1:
            for _record in range(most):
                start += (section[start] >> 1) + 1
                append(start)
        else:
            for _record in range(most):
                start += section[start] + (section[start + 1] << 7) - 124 >> 1
                append(start)
    except IndexError:
        pass
    return starts


def _lanes(column: _Column, first: int, after: int, ones: int) -> int:
    """The varints at the places from ``first`` to ``after``, as 16-bit lanes of one integer."""
    low = column(first)
    lanes = bytearray(2 * len(low))
    lanes[::2] = low
    if after - first == 1:
        return int.from_bytes(lanes, "little")
    high = bytearray(len(lanes))
    high[::2] = column(first + 1)
    return int.from_bytes(lanes, "little") + (int.from_bytes(high, "little") << 7) - (ones << 7)


def _same_width(column: _Column, first: int, after: int, count: int) -> int:
    """The number of records, of ``count``, whose varint fills the places from ``first`` to ``after``."""
    same = count
    for place in range(first, after):
        marks = (b"\x00" if place == after - 1 else b"\x01") * count
        same = min(same, _alike(column(place).translate(_CONTINUED), marks))
    return same


def _alike(column: bytes, expected: bytes) -> int:
    """The number of bytes that the two, which have the same length, have in common from the start."""
    if column == expected:
        return len(column)
    return _lowest_bit(int.from_bytes(column, "little") ^ int.from_bytes(expected, "little")) >> 3


def _lowest_bit(value: int) -> int:
    return (value & -value).bit_length() - 1


def _run(
    column: _Column,
    index: int,
    same: int,
    others: int,
    layout: _Layout,
    following: Callable[[int], int],
    steps: int,
) -> _Run | None:
    """The run of the record at ``index`` and those of the next ``same`` whose offset and timestamp are right too."""
    expected = _offset_columns(index + 1, others)
    for place in range(layout.offset, layout.key):
        same = min(same, _alike(column(place), expected[place - layout.offset]))
    same = min(same, _same_width(column, layout.timestamp, layout.offset, others))
    if same < _FEW:
        return None
    groups = [column(place)[:same] for place in range(layout.timestamp, layout.offset)]
    low, high = _extremes(groups)
    delta = layout.timestamp_delta
    return _Run(same + 1, min(delta, low), max(delta, high), layout.keyed, following(same + 1), steps)


def _extremes(groups: list[bytes]) -> tuple[int, int]:
    """The smallest and the largest of the zigzag varints whose first bytes, second bytes and so on ``groups`` holds."""
    if all(group == group[:1] * len(group) for group in groups):
        delta, _ = decode_varlong(bytes([group[0] for group in groups]), 0)
        return delta, delta
    if len(groups) == 1:
        absent = _ALL_BYTES.translate(None, groups[0])
        deltas = [byte >> 1 ^ -(byte & 1) for byte in _ALL_BYTES.translate(None, absent)]
        return min(deltas), max(deltas)
    word_bytes, code = _WORDS[len(groups)]
    packed = bytearray(word_bytes * len(groups[0]))
    for place, group in enumerate(groups):
        packed[place if byteorder == "little" else word_bytes - 1 - place :: word_bytes] = group
    words: Sequence[int] = memoryview(packed).cast(code)
    if 1 in groups[0].translate(_ODD):
        words = [-word if word & 1 else word for word in words]
    return _delta(min(words), len(groups)), _delta(max(words), len(groups))


def _delta(word: int, count: int) -> int:
    """The zigzag varint whose ``count`` bytes are the lowest of ``word``."""
    return decode_varlong(abs(word).to_bytes(8, "little")[:count], 0)[0]
