"""The facts of a remote segment that its names are made of."""

from typing import Final, NamedTuple

from kpystorage.errors import CorruptObject
from kpywire.uuid import from_string

OFFSET_DIGITS: Final = 20
MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1
_SHOWN = 60


class RemoteSegmentName(NamedTuple):
    """A segment of a topic's partition: its ids are 16 bytes each, ``start_offset`` is that of its first record."""

    topic: str
    topic_id: bytes
    partition: int
    start_offset: int
    segment_id: bytes


def uuid_in(text: str) -> bytes:
    """The id of 22 characters. CorruptObject if it is none."""
    try:
        return from_string(text[:_SHOWN])
    except ValueError as error:
        raise CorruptObject(str(error)) from None


def shown(value: object) -> str:
    """A value of an object in a message: one line, and not a long one."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    written = repr(value[:_SHOWN] if isinstance(value, str | bytes) else value)
    return written if len(written) <= 4 * _SHOWN else f"{written[:_SHOWN]}..."
