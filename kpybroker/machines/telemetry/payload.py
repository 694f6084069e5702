"""The metrics in a push: OpenTelemetry's ``MetricsData`` in protobuf, read in steps of a bounded size.

It reads the fields that Kafka's clients fill (KIP-714): gauges and sums with their labels, and the labels of the client
itself. Everything else is stepped over, also histograms, which no client pushes. A library would build an object for
every message in the payload before anything could be counted, and could not pause; a broker also needs no more packages
this way.

Invariant: bytes either are read or raise `Malformed`. Memory is in proportion to the points that are kept, which are at
most `MOST_POINTS`, each within the other bounds; the points beyond are counted.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple

from kpywire.errors import Malformed

MOST_POINTS: Final = 2_000
"""The most values that are taken from one push."""
MOST_LABELS: Final = 8
LONGEST_NAME: Final = 200
"""The most characters of a metric's name, or of a label's."""
LONGEST_VALUE: Final = 256
"""The most characters of a label's value: the name of a topic has at most 249."""
FIELDS_PER_STEP: Final = 500
MOST_FIELDS: Final = 200_000
"""The most fields of a payload, some ten times as many as `MOST_POINTS` of Kafka's clients have. More are refused,
since each takes CPU time, however short it is."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LOW_32_BITS: Final = 0xFFFF_FFFF
"""All that counts of a tag or a length, as in Google's readers."""
DELTA = 1
_DOUBLE = struct.Struct("<d")
_INTEGER = struct.Struct("<q")

Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One value. ``is_delta``: it adds to the one before. ``is_counter``: it never falls."""

    name: str
    labels: Labels
    value: float
    is_delta: bool
    is_counter: bool


class Payload(NamedTuple):
    """Everything that is taken from a push."""

    client: Mapping[str, str]
    """The labels of the client, such as ``group_id``."""
    points: list[Point]
    left_out: int
    """The number of points that are over a bound."""


def read(content: bytes) -> Generator[None, None, Payload]:
    """Read a payload, in steps. Raises Malformed."""
    reader = _PayloadReader(content)
    for _ in range(MOST_FIELDS // FIELDS_PER_STEP):
        if not reader.step():
            break
        yield
    else:
        raise Malformed(f"more than {MOST_FIELDS} fields")
    return Payload(reader.client, reader.points, reader.left_out)


class _PayloadReader:
    """The state between two fields: the messages that contain the next one, and what has been read of them.

    Memory does not depend on the nesting: `_PARTS` says which messages are entered, and it has no cycle.
    """

    def __init__(self, content: bytes) -> None:
        self.client: dict[str, str] = {}
        self.points: list[Point] = []
        self.left_out = 0
        self._content = content
        self._position = 0
        self._open: list[tuple[str, int]] = [("data", len(content))]
        # of the metric, the point and the label that are being read: set where one begins
        self._name: str
        self._own: list[tuple[Labels, float]]
        self._is_sum: bool
        self._is_monotonic: bool
        self._temporality: int
        self._labels: dict[str, str]
        self._value: float | None
        self._is_over: bool
        self._key: str
        self._text: str

    def step(self) -> bool:
        """Read some fields. Return whether there are more."""
        for _ in range(FIELDS_PER_STEP):
            while self._position == self._open[-1][1]:
                kind, _end = self._open.pop()
                if not self._open:
                    return False
                leave = _LEAVE.get(kind)
                if leave is not None:
                    leave(self)
            self._field()
        return True

    def _field(self) -> None:
        kind, end = self._open[-1]
        tag = self._varint(end) & LOW_32_BITS
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise Malformed("a field with the number 0")
        start = self._position
        if wire_type == VARINT:
            self._set(kind, number, wire_type, self._varint(end))
            return
        length = 8 if wire_type == FIXED64 else 4 if wire_type == FIXED32 else None
        if wire_type == BYTES:
            length = self._varint(end) & LOW_32_BITS
            start = self._position
        if length is None:
            raise Malformed(f"a field of the type {wire_type}")
        if length > end - start:
            raise Malformed(f"a field of {length} bytes where {end - start} are left")
        part = _PARTS.get((kind, number)) if wire_type == BYTES else None
        if part is None:
            self._set(kind, number, wire_type, (start, start + length))
            self._position = start + length
            return
        self._open.append((part, start + length))
        enter = _ENTER.get(part)
        if enter is not None:
            enter(self)

    def _varint(self, end: int) -> int:
        value = shift = 0
        content, position = self._content, self._position
        while position < end and shift < 70:
            byte = content[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._position = position
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise Malformed("a number that does not end")

    def _set(self, kind: str, number: int, wire_type: int, value: Any) -> None:
        setter = _FIELDS.get((kind, number, wire_type))
        if setter is not None:
            setter(self, value)

    def _text_of(self, place: tuple[int, int], longest: int) -> str:
        start, end = place
        try:
            text = self._content[start:end].decode()
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None
        if len(text) > longest:
            self._is_over = True
            return ""
        return text

    # What is entered and left

    def begin_metric(self) -> None:
        self._name, self._own = "", []
        self._is_sum = self._is_monotonic = False
        self._temporality = 0

    def end_metric(self) -> None:
        """The name and kind of a metric may follow its points."""
        if not self._name:
            self.left_out += len(self._own)
            return
        is_delta = self._is_sum and self._temporality == DELTA
        is_counter = self._is_sum and self._is_monotonic
        self.points += [Point(self._name, labels, value, is_delta, is_counter) for labels, value in self._own]

    def begin_point(self) -> None:
        self._labels, self._value, self._is_over = {}, None, False

    def end_point(self) -> None:
        if self._value is None:
            return
        if self._is_over or len(self.points) + len(self._own) >= MOST_POINTS:
            self.left_out += 1
            return
        self._own.append((tuple(sorted(self._labels.items())), self._value))

    def begin_attribute(self) -> None:
        self._key = self._text = ""

    def end_label(self) -> None:
        self._keep(self._labels)

    def end_client_label(self) -> None:
        self._keep(self.client)

    def _keep(self, labels: dict[str, str]) -> None:
        if len(labels) >= MOST_LABELS and self._key not in labels:
            self._is_over = True
        elif self._key:
            labels[self._key] = self._text

    # Fields

    def name(self, place: tuple[int, int]) -> None:
        self._name = self._text_of(place, LONGEST_NAME)

    def temporality(self, value: int) -> None:
        self._is_sum, self._temporality = True, value

    def monotonic(self, value: int) -> None:
        self._is_sum, self._is_monotonic = True, value != 0

    def double(self, place: tuple[int, int]) -> None:
        (self._value,) = _DOUBLE.unpack_from(self._content, place[0])

    def integer(self, place: tuple[int, int]) -> None:
        self._value = float(_INTEGER.unpack_from(self._content, place[0])[0])

    def key(self, place: tuple[int, int]) -> None:
        self._key = self._text_of(place, LONGEST_NAME)

    def text(self, place: tuple[int, int]) -> None:
        self._text = self._text_of(place, LONGEST_VALUE)

    def truth(self, value: int) -> None:
        self._text = "true" if value else "false"

    def number(self, value: int) -> None:
        self._text = str(value - (1 << 64) if value >= 1 << 63 else value)

    def fraction(self, place: tuple[int, int]) -> None:
        self._text = str(_DOUBLE.unpack_from(self._content, place[0])[0])


_PARTS: Final[Mapping[tuple[str, int], str]] = {
    ("data", 1): "resource metrics",
    ("resource metrics", 1): "resource",
    ("resource", 1): "client label",
    ("client label", 2): "label value",
    ("resource metrics", 2): "scope metrics",
    ("scope metrics", 2): "metric",
    ("metric", 5): "gauge",
    ("metric", 7): "sum",
    ("gauge", 1): "point",
    ("sum", 1): "point",
    ("point", 7): "label",
    ("label", 2): "label value",
}
"""The messages that are read, by the message and the number of the field that they are in."""
_ENTER: Final[Mapping[str, Callable[[_PayloadReader], None]]] = {
    "metric": _PayloadReader.begin_metric,
    "point": _PayloadReader.begin_point,
    "label": _PayloadReader.begin_attribute,
    "client label": _PayloadReader.begin_attribute,
}
_LEAVE: Final[Mapping[str, Callable[[_PayloadReader], None]]] = {
    "metric": _PayloadReader.end_metric,
    "point": _PayloadReader.end_point,
    "label": _PayloadReader.end_label,
    "client label": _PayloadReader.end_client_label,
}
_FIELDS: Final[Mapping[tuple[str, int, int], Callable[[_PayloadReader, Any], None]]] = {
    ("metric", 1, BYTES): _PayloadReader.name,
    ("sum", 2, VARINT): _PayloadReader.temporality,
    ("sum", 3, VARINT): _PayloadReader.monotonic,
    ("point", 4, FIXED64): _PayloadReader.double,
    ("point", 6, FIXED64): _PayloadReader.integer,
    ("label", 1, BYTES): _PayloadReader.key,
    ("client label", 1, BYTES): _PayloadReader.key,
    ("label value", 1, BYTES): _PayloadReader.text,
    ("label value", 2, VARINT): _PayloadReader.truth,
    ("label value", 3, VARINT): _PayloadReader.number,
    ("label value", 4, FIXED64): _PayloadReader.fraction,
}
"""The fields that are read. A known number with another type is an unknown field, as for every reader of protobuf."""
