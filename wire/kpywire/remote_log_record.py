"""The values of ``__remote_log_metadata``, and the partition that holds those of a topic's partition.

A value is framed as a record of the metadata log is: unsigned varints of the frame version (1), its type and its
version, then the message. Records have no key. Kafka's classes are RemoteLogMetadataSerde and
RemoteLogMetadataTopicPartitioner. Not here: the meaning of the records.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

from kpywire import remote_log_records
from kpywire.codec import decoder, encode
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.murmur2 import murmur2
from kpywire.remote_log_records.table import MODULES
from kpywire.uuid import UUID_BYTES
from kpywire.varint import Buffer, decode_unsigned_varint, encode_unsigned_varint

TOPIC: Final = "__remote_log_metadata"
FRAME_VERSION: Final = 1
_INT = 0xFFFF_FFFF


@cache
def record_class(record_type: int) -> Any:
    """The class of a type of record. KeyError if Kafka 4.4 has no such type."""
    stem = MODULES[record_type]
    declared = vars(import_module(f"{remote_log_records.__name__}.{stem}")).values()
    (found,) = (each for each in declared if getattr(each, "KEY", None) == record_type)
    return found


def encode_value(record: object, version: int = 0) -> bytes:
    """The bytes of a record's value. UnsupportedVersion if the version cannot carry what the record says."""
    record_type: int = record.KEY  # type: ignore[attr-defined]
    frame = b"".join(map(encode_unsigned_varint, (FRAME_VERSION, record_type, version)))
    return frame + encode(record, version)


def decode_value(buffer: Buffer) -> Any:
    """The record in a value. Malformed if it is none.

    That is OfNewerVersion if a newer version of Kafka has such types or versions of records.
    """
    frame, position = decode_unsigned_varint(buffer, 0)
    record_type, position = decode_unsigned_varint(buffer, position)
    version, position = decode_unsigned_varint(buffer, position)
    if frame != FRAME_VERSION:
        raise Malformed(f"frame version {frame} in {TOPIC}")
    if record_type not in MODULES:
        raise OfNewerVersion(f"record type {record_type} in {TOPIC} is of a newer version")
    cls = record_class(record_type)
    if version not in cls.VERSIONS:
        raise OfNewerVersion(f"version {version} of {cls.__name__} in {TOPIC} is of a newer version")
    record, end = decoder(cls, version)(buffer, position)
    if end != len(buffer):
        raise Malformed(f"{len(buffer) - end} bytes after a {cls.__name__} in {TOPIC}")
    return record


def partition_of(topic_id: bytes, partition: int, partitions: int) -> int:
    """The partition of ``__remote_log_metadata``, which has ``partitions``, for one of a topic.

    Malformed topic ids raise ValueError: those without 16 bytes.
    """
    if len(topic_id) != UUID_BYTES:
        raise ValueError(f"a topic id has {UUID_BYTES} bytes, not {len(topic_id)}")
    most, least = int.from_bytes(topic_id[:8], "big"), int.from_bytes(topic_id[8:], "big")
    number = 1
    for part in (least >> 32 ^ least, most >> 32 ^ most, partition):  # Java's Objects.hash
        number = 31 * number + (part & _INT) & _INT
    return (murmur2(number.to_bytes(4, "big")) & 0x7FFF_FFFF) % partitions
