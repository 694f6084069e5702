"""Records as tests write, read and expect them.

An expectation gives as much as the test cares about: a value; a key and a value; or a mapping of the fields that count.
`differences` compares a list of expectations with the records that are there, and lists the differences in lines.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any, NamedTuple

Text = str | bytes | None
Headers = tuple[tuple[str, bytes | None], ...]
FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
MOST_SHOWN = 200
"""The most lines of differences, and the most characters of one value."""


class Record(NamedTuple):
    """A record of a topic. Texts are easier to read than bytes: ``text`` and ``json`` decode the value."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    topic: str = ""
    partition: int = 0
    offset: int = -1
    timestamp_ms: int = -1

    @property
    def text(self) -> str | None:
        """The value as UTF-8."""
        return None if self.value is None else self.value.decode()

    @property
    def json(self) -> Any:
        """The value as JSON. ValueError if it is not JSON."""
        return None if self.value is None else json.loads(self.value)

    def __repr__(self) -> str:
        return f"Record({describe(self)})"


class Records(list[Record]):
    """Records that were read. They equal a list of the same records, or a list of expectations that they meet in this
    order."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and len(other) == len(self) and all(map(matches, other, self))

    def __ne__(self, other: object) -> bool:
        return not self == other


def in_order(found: Iterable[Record]) -> Records:
    """The records partition by partition, in the order of their offsets."""
    return Records(sorted(found, key=lambda record: (record.partition, record.offset)))


def describe(record: Record) -> str:
    """The record on one line, for people."""
    parts = [f"{record.topic}[{record.partition}]@{record.offset}", _shown(record.key), "=", _shown(record.value)]
    if record.key is None:
        del parts[1:3]
    return " ".join([*parts, *(f"{name}:{_shown(value)}" for name, value in record.headers)])


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text)} characters)"


def as_bytes(value: Any) -> bytes | None:
    """The bytes of a key or value as a test may write it: text is UTF-8; dicts, lists and numbers are JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def as_headers(headers: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> Headers:
    """Headers from pairs or a mapping."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return tuple((name, as_bytes(value)) for name, value in pairs)


def as_record(given: Any) -> Record:
    """A record to be written: a `Record`, a mapping of its fields, a pair of key and value, or just a value."""
    if isinstance(given, Record):
        return given._replace(value=as_bytes(given.value), key=as_bytes(given.key), headers=as_headers(given.headers))
    if isinstance(given, Mapping) and "value" in given and set(given) <= set(FIELDS):
        fields = dict(given)
        return Record(
            as_bytes(fields.pop("value")),
            as_bytes(fields.pop("key", None)),
            as_headers(fields.pop("headers", None)),
            **fields,
        )
    if isinstance(given, tuple) and len(given) == 2:
        return Record(as_bytes(given[1]), as_bytes(given[0]))
    return Record(as_bytes(given))


def by_partition(records: Sequence[Record], partitions: int, partition: int | None) -> dict[int, list[Record]]:
    """The records of each partition: ``partition`` if given, else chosen by the key as Kafka's clients do; without a
    key partition 0."""
    from kpybroker.client.partitioning import partition_of

    spread: dict[int, list[Record]] = {}
    for record in records:
        if partition is not None:
            chosen = partition
        elif record.key is not None:
            chosen = partition_of(record.key, partitions)
        else:
            chosen = record.partition
        spread.setdefault(chosen, []).append(record)
    return spread


# Expecting


def matches(expected: Any, record: Record) -> bool:
    """Whether a record meets an expectation."""
    if isinstance(expected, Record):
        return expected == record
    if isinstance(expected, Mapping) and expected and set(expected) <= {*FIELDS, "json", "text"}:
        return all(_field_matches(name, value, record) for name, value in expected.items())
    if isinstance(expected, tuple) and len(expected) == 2:
        return _value_matches(expected[0], record.key) and _value_matches(expected[1], record.value)
    return _value_matches(expected, record.value)


def _field_matches(name: str, expected: Any, record: Record) -> bool:
    if name == "headers":
        return as_headers(expected) == record.headers
    if name in ("key", "value"):
        return _value_matches(expected, getattr(record, name))
    try:
        return bool(getattr(record, name) == expected)
    except ValueError:
        return False


def _value_matches(expected: Any, value: bytes | None) -> bool:
    if expected is None or isinstance(expected, str | bytes):
        return as_bytes(expected) == value
    try:
        return value is not None and bool(json.loads(value) == expected)
    except ValueError:
        return bool(expected == value)


def differences(expected: Sequence[Any], records: Sequence[Record], *, ordered: bool = True) -> list[str]:
    """The differences, in lines: ``-`` is missing, ``+`` is too much; nothing if there are none."""
    if ordered:
        if len(expected) == len(records) and all(map(matches, expected, records)):
            return []
        pairing = _pairing(expected, records)
    else:
        left = list(records)
        pairing = []
        for one in expected:
            found = next((record for record in left if matches(one, record)), None)
            pairing.append((one, found))
            if found is not None:
                left.remove(found)
        if not left and all(found is not None for _, found in pairing):
            return []
        pairing += [(_NOTHING, record) for record in left]
    return _lines(pairing, len(expected), len(records))


_NOTHING = object()


def _pairing(expected: Sequence[Any], records: Sequence[Record]) -> list[tuple[Any, Record | None]]:
    """The expectations beside the records that meet them, in order. An expectation or record without a counterpart
    stands alone."""
    numbers = [next((at for at, record in enumerate(records) if matches(one, record)), None) for one in expected]
    left = [numbers[at] if numbers[at] is not None else f"missing {at}" for at in range(len(expected))]
    right: list[Any] = []
    for place, record in enumerate(records):
        meets = next((at for at, one in enumerate(expected) if matches(one, record)), None)
        right.append(f"extra {place}" if meets is None else left[meets])
    pairs: list[tuple[Any, Record | None]] = []
    for tag, first, last, start, end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(expected[first:last], records[start:end], strict=True)
        else:
            pairs += [(one, None) for one in expected[first:last]]
            pairs += [(_NOTHING, record) for record in records[start:end]]
    return pairs


def _lines(pairing: Sequence[tuple[Any, Record | None]], expected: int, found: int) -> list[str]:
    lines = [f"not the records that were expected ({expected} expected, {found} there):"]
    for one, record in pairing:
        if record is None:
            lines.append(f"- {_shown(one)}")
        elif one is _NOTHING:
            lines.append(f"+ {describe(record)}")
        else:
            lines.append(f"  {describe(record)}")
    if len(lines) > MOST_SHOWN:
        lines = [*lines[:MOST_SHOWN], f"... and {len(lines) - MOST_SHOWN} lines more"]
    return lines
