"""The steps of a sequence: requests that name what earlier answers will have said, pauses, clients that go away.

Nothing here talks to a broker. A step is the same for both brokers; what differs between them (ids that each one makes
up) stands in it as a symbol, which `resolved` replaces by what this broker answered. Everything else is the same byte
for byte. A string that begins with ``~`` names something of this sequence alone: the tilde becomes its prefix.
"""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from kpywire.crc import crc32c
from kpywire.record import Record, build_batch
from kpywire.schema import Field, Structure, fields_of
from support.raw_requests import UNKNOWN_ID

Memory = Mapping[tuple[str, str], Any]
"""The facts that a broker reported, by kind ("topic_id", "member_id", ...) and whose it is (a name, an actor)."""

NOTHING_LEARNED: Mapping[str, Any] = {
    "cluster_id": "",
    "topic_id": UNKNOWN_ID,
    "old_topic_id": UNKNOWN_ID,
    "producer_id": 1 << 40,
    "producer_epoch": 0,
    "member_id": "",
    "generation": -1,
    "session_id": 0,
    "instance_id": UNKNOWN_ID,
    "subscription_id": 0,
}


class Learned(NamedTuple):
    """The last fact that the broker reported: its kind, and whose it is."""

    kind: str
    owner: str

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.owner}>"


def learned(kind: str, owner: str) -> Any:
    """The symbol, to stand in a field of any type."""
    return Learned(kind, owner)


class Batch(NamedTuple):
    """A record batch, put together when it is sent: its clock is that of the sequence, its producer id the broker's."""

    records: tuple[tuple[int, bytes | None, bytes | None], ...]
    """Milliseconds after the beginning of the sequence, key, value."""
    codec: int = 0
    producer: str | None = None
    """The actor whose producer id it carries."""
    epoch: Any = -1
    """A number, or the answer that its producer got."""
    sequence: int = -1
    damage: str = ""
    """The fault of the batch, one of `DAMAGES`."""
    transactional: bool = False


class Call(NamedTuple):
    """A request of one client, whose connection is named after it."""

    actor: str
    version: int
    request: Any


class Pause(NamedTuple):
    """Time goes by, for timers of the brokers."""

    wait_ms: int


class Hangup(NamedTuple):
    """A client closes its connection without a word."""

    actor: str


Step = Call | Pause | Hangup


def fields_in(message: Any) -> tuple[Field, ...]:
    """The fields of a message or struct."""
    cls: Any = type(message)
    return fields_of(cls)


def resolved(value: Any, memory: Memory, prefix: str, began_ms: int) -> Any:
    """The value with its symbols replaced."""
    if isinstance(value, Structure):
        old = {name: getattr(value, name) for name in type(value).FIELDS}
        new = {name: resolved(each, memory, prefix, began_ms) for name, each in old.items()}
        unchanged = all(new[name] is each for name, each in old.items())
        return value if unchanged else type(value)(**new)
    if isinstance(value, Learned):
        return memory.get((value.kind, value.owner), NOTHING_LEARNED[value.kind])
    if isinstance(value, Batch):
        return batch_bytes(value, memory, began_ms)
    if isinstance(value, list):
        return [resolved(each, memory, prefix, began_ms) for each in value]
    if isinstance(value, str) and value.startswith("~"):
        return prefix + value[1:]
    return value


def fit(message: Any, version: int) -> Any:
    """Take from a message what this version cannot say; in place, and returned."""
    for each in fields_in(message):
        value = getattr(message, each.name)
        if version not in each.versions or (value is None and version not in each.nullable):
            if value != each.fresh_default():
                setattr(message, each.name, each.fresh_default())
        elif isinstance(value, Structure):
            fit(value, version)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Structure):
                    fit(element, version)
    return message


def batch_bytes(batch: Batch, memory: Memory, began_ms: int) -> bytes:
    producer_id = -1
    if batch.producer is not None:
        producer_id = memory.get(("producer_id", batch.producer), NOTHING_LEARNED["producer_id"])
    built = build_batch(
        [Record(timestamp=began_ms + after, key=key, value=value) for after, key, value in batch.records],
        codec=batch.codec,
        producer_id=producer_id,
        producer_epoch=resolved(batch.epoch, memory, "", began_ms),
        base_sequence=batch.sequence,
        transactional=batch.transactional,
    )
    return _damaged(built, batch.damage, began_ms)


class Overwrite(NamedTuple):
    """One field of the batch header with another value under a valid CRC."""

    position: int
    form: str
    value: int


DAMAGES: Mapping[str, Overwrite | None] = {
    "wrong crc": None,
    "cut off": None,
    "a byte too many": None,
    "twice": None,
    "empty": None,
    "garbage behind the header": None,
    "header only": None,
    "max timestamp in the future": None,
    "base offset": Overwrite(0, ">q", 5),
    "leader epoch": Overwrite(12, ">i", 9),
    "length too small": Overwrite(8, ">i", 40),
    "length too large": Overwrite(8, ">i", 1 << 20),
    "negative length": Overwrite(8, ">i", -1),
    "magic 0": Overwrite(16, ">b", 0),
    "magic 1": Overwrite(16, ">b", 1),
    "magic 3": Overwrite(16, ">b", 3),
    "control": Overwrite(21, ">h", 0x20),
    "unknown attribute": Overwrite(21, ">h", 0x80),
    "unknown codec": Overwrite(21, ">h", 5),
    "log append time": Overwrite(21, ">h", 0x08),
    "delete horizon": Overwrite(21, ">h", 0x40),
    "last offset delta": Overwrite(23, ">i", 7),
    "negative last offset delta": Overwrite(23, ">i", -1),
    "base timestamp -1": Overwrite(27, ">q", -1),
    "max timestamp -1": Overwrite(35, ">q", -1),
    "producer id without a sequence": Overwrite(43, ">q", 77),
    "count above": Overwrite(57, ">i", 5),
    "count below": Overwrite(57, ">i", 1),
    "count 0": Overwrite(57, ">i", 0),
    "negative count": Overwrite(57, ">i", -1),
    "huge count": Overwrite(57, ">i", 0x7FFF_FFFF),
}
"""The faults that a batch can have."""

DAY_MS = 86_400_000


def _damaged(built: bytes, damage: str, began_ms: int) -> bytes:
    copy = bytearray(built)
    match damage:
        case "":
            return built
        case "wrong crc":
            copy[17] ^= 0xFF
            return bytes(copy)
        case "cut off":
            return built[:-1]
        case "a byte too many":
            return built + b"\0"
        case "twice":
            return built + built
        case "empty":
            return b""
        case "header only":
            return built[:61]
        case "garbage behind the header":
            copy[61:] = bytes(255 - index % 7 for index in range(len(copy) - 61))
        case "max timestamp in the future":
            struct.pack_into(">q", copy, 35, began_ms + 9 * DAY_MS)
        case _:
            overwrite = DAMAGES[damage]
            assert overwrite is not None, damage
            struct.pack_into(overwrite.form, copy, overwrite.position, overwrite.value)
    struct.pack_into(">I", copy, 17, crc32c(memoryview(copy)[21:]))
    return bytes(copy)


def text_of(step: Step) -> str:
    """One line, without the fields that have their defaults."""
    if isinstance(step, Pause):
        return f"(pause of {step.wait_ms} ms)"
    if isinstance(step, Hangup):
        return f"{step.actor}: closes its connection"
    return f"{step.actor}: v{step.version} {_text(step.request)}"


def _text(value: Any) -> str:
    if isinstance(value, Structure):
        reported = [
            f"{each.name}={_text(getattr(value, each.name))}"
            for each in fields_in(value)
            if getattr(value, each.name) != each.fresh_default()
        ]
        return f"{type(value).__name__}({', '.join(reported)})"
    if isinstance(value, Batch):
        reported = [
            f"{name}={_short(part)}"
            for name, part in value._asdict().items()
            if part != Batch._field_defaults.get(name)
        ]
        return f"Batch({', '.join(reported)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return _short(value)


def _short(value: Any) -> str:
    """The value as it is printed; long strings by their beginning and length."""
    if isinstance(value, (bytes, str)) and len(value) > 40:
        return f"{value[:4]!r}... ({len(value)})"
    if isinstance(value, tuple) and not isinstance(value, Learned):
        return f"({', '.join(map(_short, value))})"
    return repr(value)
