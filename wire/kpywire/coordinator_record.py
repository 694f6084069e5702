"""Keys and values of coordinators' records: groups, transactions, shares.

A key is its record's type and a message of version 0; a value is its own version and a message of that version
(org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde). A record without a value takes its key back.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Any

from kpywire.codec import decode, encode
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.varint import Buffer

_NUMBER = Struct(">h")


class RecordFormat:
    """The keys and values of one coordinator, declared by the modules of one package."""

    def __init__(self, package: str, modules: Mapping[int, str]) -> None:
        self.package = package
        self.modules = modules

    @cache  # noqa: B019
    def classes(self, record_type: int) -> tuple[Any, Any]:
        """The classes of a type's key and value. KeyError if Kafka 4.3 has no such type."""
        declared = vars(import_module(f"{self.package}.{self.modules[record_type]}")).values()
        messages = [each for each in declared if getattr(each, "KEY", None) == record_type]
        key, value = sorted(messages, key=lambda cls: str(cls.__name__.endswith("Value")))
        return key, value

    def encode_key(self, key: object) -> bytes:
        """The bytes of a record's key."""
        return _NUMBER.pack(key.KEY) + encode(key, 0)  # type: ignore[attr-defined]

    def encode_value(self, value: object, version: int) -> bytes:
        """The bytes of a record's value at a version. UnsupportedVersion if the version cannot hold the value."""
        return _NUMBER.pack(version) + encode(value, version)

    def decode_key(self, buffer: Buffer) -> Any:
        """The key in these bytes, an instance of its type's class. Malformed if Kafka 4.3 has no such type or bytes."""
        return decode(self.classes(self.record_type(buffer))[0], 0, buffer, 2)

    def decode_value(self, record_type: int, buffer: Buffer) -> Any:
        """The value that belongs to a key of ``record_type``. Malformed if Kafka 4.3 has no such version or bytes."""
        version = _number(buffer)
        cls = self.classes(record_type)[1]
        if version not in cls.VERSIONS:
            text = f"version {version} of {cls.__name__}"
            raise OfNewerVersion(f"{text} is of a newer version") if version > cls.VERSIONS[-1] else Malformed(text)
        return decode(cls, version, buffer, 2)

    def record_type(self, buffer: Buffer) -> int:
        """The type in a key. Malformed if there is none or Kafka 4.3 does not have it."""
        record_type = _number(buffer)
        if record_type not in self.modules:
            text = f"a record key of type {record_type}"
            raise (
                OfNewerVersion(f"{text} is of a newer version") if record_type > max(self.modules) else Malformed(text)
            )
        return record_type


def _number(buffer: Buffer) -> int:
    if len(buffer) < 2:
        raise Malformed("a record's key or value is cut off")
    number: int = _NUMBER.unpack_from(buffer, 0)[0]
    return number
