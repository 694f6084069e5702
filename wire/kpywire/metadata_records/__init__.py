"""The records of the metadata log, ``__cluster_metadata``, one module for each type.

A record's value is framed: an unsigned varint frame version (1), its type and its version, then the message, as in
org.apache.kafka.server.common.serialization.AbstractApiMessageSerde. `kpywire.generator` writes the declarations.
"""

from functools import cache
from importlib import import_module
from typing import Any

from kpywire.codec import decoder, encode
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.metadata_records.table import MODULES
from kpywire.varint import Buffer, decode_unsigned_varint, encode_unsigned_varint

FRAME_VERSION = 1


@cache
def record_class(record_type: int) -> Any:
    """The class of a type of record. KeyError if Kafka 4.3 has no such type."""
    stem = MODULES[record_type]
    (found,) = (
        each for each in vars(import_module(f"{__name__}.{stem}")).values() if getattr(each, "KEY", None) == record_type
    )
    return found


def encode_record(record: object, version: int) -> bytes:
    """A record's value in the metadata log. UnsupportedVersion if the version cannot carry what the record says."""
    record_type: int = record.KEY  # type: ignore[attr-defined]
    frame = (
        encode_unsigned_varint(FRAME_VERSION) + encode_unsigned_varint(record_type) + encode_unsigned_varint(version)
    )
    return frame + encode(record, version)


def decode_record(buffer: Buffer) -> Any:
    """The record in a value of the metadata log. Malformed if it is none.

    That is OfNewerVersion if a newer version of Kafka has such types or versions of records.
    """
    frame, position = decode_unsigned_varint(buffer, 0)
    record_type, position = decode_unsigned_varint(buffer, position)
    version, position = decode_unsigned_varint(buffer, position)
    if frame != FRAME_VERSION:
        raise Malformed(f"frame version {frame} in the metadata log")
    if record_type not in MODULES:
        text = f"record type {record_type} in the metadata log"
        raise OfNewerVersion(f"{text} is of a newer version") if record_type > max(MODULES) else Malformed(text)
    cls = record_class(record_type)
    if version not in cls.VERSIONS:
        text = f"version {version} of {cls.__name__} in the metadata log"
        raise OfNewerVersion(f"{text} is of a newer version") if version > cls.VERSIONS[-1] else Malformed(text)
    record, end = decoder(cls, version)(buffer, position)
    if end != len(buffer):
        raise Malformed(f"{len(buffer) - end} bytes after a {cls.__name__} in the metadata log")
    return record
