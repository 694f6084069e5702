"""The form of the history's file: a first line, then frames, each with its length and checksum. Pure.

A frame holds the names of values, the names of groups, a sample of either ring, or an event. Names stand in the file
once for all samples behind them. A reader takes what is whole: the first frame that is torn or damaged ends it.
"""

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from kpybroker.monitoring.history.samples import (
    MEASURES,
    MISSING,
    MOST_GROUPS,
    HistoryEvent,
    KeptSample,
    Rings,
    put,
)

FIRST_LINE: Final = b"kpybroker history 1\n"
VALUES, GROUPS, FINE, COARSE, EVENT = range(5)
_HEAD: Final = struct.Struct("<IIB")
"""The bytes behind it, their checksum with the kind, and the kind."""
MOST_BYTES: Final = 1 << 20
"""The most bytes of a frame."""


class Found(NamedTuple):
    """The content of a file."""

    rings: Rings
    read_bytes: int
    """How much of it is whole."""


class Writer:
    """Makes frames. It knows which names stand in the file."""

    def __init__(self) -> None:
        self._groups: tuple[str, ...] | None = None

    def first(self) -> bytes:
        """The beginning of a file."""
        self._groups = None
        return FIRST_LINE + _frame(VALUES, _json(MEASURES))

    def fine(self, sample: KeptSample) -> bytes:
        """The frames of a fine sample."""
        return self._sample(FINE, sample)

    def coarse(self, sample: KeptSample) -> bytes:
        """The frames of a coarse sample."""
        return self._sample(COARSE, sample)

    def event(self, event: HistoryEvent) -> bytes:
        """The frame of an event."""
        return _frame(EVENT, _json(event))

    def whole(self, rings: Rings) -> Iterator[bytes]:
        """A file with all that is kept, in pieces."""
        yield self.first()
        yield from (self.event(each) for each in list(rings.events))
        yield from (self.coarse(each) for each in list(rings.coarse))
        yield from (self.fine(each) for each in list(rings.fine))

    def _sample(self, kind: int, sample: KeptSample) -> bytes:
        before = b""
        if sample.groups != self._groups:
            self._groups = sample.groups
            before = _frame(GROUPS, _json(sample.groups))
        numbers = [*sample.values, *sample.lags]
        return before + _frame(kind, struct.pack(f"<q{len(numbers)}f", sample.at_ms, *numbers))


def read(content: bytes) -> Found:
    """Read what is whole in a file: nothing of one that is not a history's."""
    rings = Rings()
    position = len(FIRST_LINE)
    if not content.startswith(FIRST_LINE):
        return Found(rings, 0)
    measures: Sequence[str] = ()
    groups: tuple[str, ...] = ()
    while (payload := _next(content, position)) is not None:
        kind = content[position + _HEAD.size - 1]
        try:
            if kind == VALUES:
                measures = _names(payload)
            elif kind == GROUPS:
                groups = _names(payload)
                if len(groups) > MOST_GROUPS:
                    break
            elif kind in (FINE, COARSE):
                put(rings.fine if kind == FINE else rings.coarse, _sample(payload, measures, groups))
            elif kind == EVENT:
                rings.events.append(_event(payload))
            else:
                break
        except (ValueError, TypeError, RecursionError, struct.error):
            break
        position += _HEAD.size + len(payload)
    return Found(rings, position)


def _frame(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), crc32(payload, kind), kind) + payload


def _next(content: bytes, position: int) -> bytes | None:
    """The bytes of the next frame; None if there is none that is whole."""
    if len(content) - position < _HEAD.size:
        return None
    length, checksum, kind = _HEAD.unpack_from(content, position)
    payload = content[position + _HEAD.size : position + _HEAD.size + length]
    is_whole = length <= MOST_BYTES and len(payload) == length and crc32(payload, kind) == checksum
    return payload if is_whole else None


def _json(value: Sequence[object]) -> bytes:
    return json.dumps(list(value), separators=(",", ":")).encode()


def _names(payload: bytes) -> tuple[str, ...]:
    found = json.loads(payload)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("no list of names")
    return tuple(found)


def _sample(payload: bytes, measures: Sequence[str], groups: tuple[str, ...]) -> KeptSample:
    at_ms, *numbers = struct.unpack(f"<q{len(measures) + 2 * len(groups)}f", payload)
    known = dict(zip(measures, numbers, strict=False))
    values = array("f", [known.get(name, MISSING) for name in MEASURES])
    return KeptSample(at_ms, values, groups, array("f", numbers[len(measures) :]))


def _event(payload: bytes) -> HistoryEvent:
    at_ms, what, subject, number, detail = json.loads(payload)
    is_one = isinstance(at_ms, int) and isinstance(number, int)
    if not is_one or not all(isinstance(each, str) for each in (what, subject, detail)):
        raise ValueError("no event")
    return HistoryEvent(at_ms, what, subject, number, detail)
