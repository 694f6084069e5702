"""The ids of mirrored topics. A mirror has its source's id; where the source has none, one that is made up here.

Topics have ids from Kafka 2.8 on (KIP-516). Made-up ids are of version 8 (RFC 9562), which Kafka's random ones are not:
so a source that gives ids to its topics later, by an upgrade, is still the source.
"""

from collections.abc import Callable
from typing import Final

from kpywire.uuid import UUID_BYTES, ZERO_UUID, random_uuid, usable

VERSION_BYTE: Final = 6
MADE_UP: Final = 8


def made_up_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """An id for the mirror of a topic that has none."""
    while True:
        found = bytearray(random_uuid(random_bytes(UUID_BYTES)))
        found[VERSION_BYTE] = found[VERSION_BYTE] & 0x0F | MADE_UP << 4
        if usable(bytes(found)):
            return bytes(found)


def is_made_up(topic_id: bytes) -> bool:
    """Whether the id of a mirror is not its source's."""
    return topic_id[VERSION_BYTE] >> 4 == MADE_UP


def may_be_mirror(here: bytes, there: bytes) -> bool:
    """Whether a topic with the first id may be the mirror of one with the second, which is zero if it has none."""
    return here == there or there == ZERO_UUID or is_made_up(here)
