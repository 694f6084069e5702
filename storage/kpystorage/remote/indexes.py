"""The ``.indexes`` object of a segment: its index files one after the other, each encrypted on its own or as it is.

An empty file takes no bytes. The transaction index may be missing. The manifest says where each is.

Invariant: the files lie side by side from the beginning of the object, without gap or overlap.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.encryption import ADDED_BYTES, SegmentKey
from kpystorage.remote.segment_name import MOST_INT
from kpywire.varint import Buffer


class IndexType(Enum):
    """Kafka's types of indexes (RemoteStorageManager.IndexType), by their names in a manifest, in their order."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producerSnapshot"
    LEADER_EPOCH = "leaderEpoch"
    TRANSACTION = "transaction"


class StoredIndex(NamedTuple):
    """The place of one index in the object."""

    position: int
    size: int


SegmentIndexes = Mapping[IndexType, StoredIndex]
"""The places of a segment's indexes. All are there but, in some segments, that of transactions."""


def check(indexes: SegmentIndexes, *, encrypted: bool) -> None:
    """CorruptObject if an index is missing, or the places are none that `join` makes."""
    missing = [each.value for each in IndexType if each is not IndexType.TRANSACTION and each not in indexes]
    if missing:
        raise CorruptObject(f"no {missing[0]} index")
    end = 0
    for position, size in sorted(indexes.values()):
        if position != end or size < 0:
            raise CorruptObject(f"an index of {size} bytes at {position} where {end} is the end of the others")
        if encrypted and 0 < size < ADDED_BYTES:
            raise CorruptObject(f"an encrypted index of {size} bytes")
        end += size
    if end > MOST_INT:
        raise CorruptObject(f"indexes of {end} bytes")


def join(files: Mapping[IndexType, Buffer], key: SegmentKey | None = None) -> tuple[list[Buffer], SegmentIndexes]:
    """The parts of the object, and the places of the indexes. CorruptObject if a file is missing."""
    parts: list[Buffer] = []
    places: dict[IndexType, StoredIndex] = {}
    position = 0
    for each in IndexType:
        if each in files:
            file = files[each]
            stored = key.encrypt(file) if key is not None and file else file
            places[each] = StoredIndex(position, len(stored))
            position += len(stored)
            parts.append(stored)
    check(places, encrypted=key is not None)
    return parts, places


def restore(place: StoredIndex, stored: Buffer, key: SegmentKey | None = None) -> Buffer:
    """An index file from its bytes in the object. CorruptObject if they are damaged or too few."""
    if len(stored) != place.size:
        raise CorruptObject(f"an index has {len(stored)} bytes where {place.size} are stored")
    return key.decrypt(stored) if key is not None and stored else stored
