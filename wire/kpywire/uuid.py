"""Kafka's UUIDs: 16 bytes, written as 22 characters of URL-safe base64 without padding (KIP-516)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

UUID_BYTES: Final = 16
ZERO_UUID = bytes(UUID_BYTES)  # stands for "no UUID"
ONE_UUID = bytes(15) + b"\x01"  # reserved: the metadata topic's id
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
RESERVED_UUIDS = 100  # ids below this number never name a topic or a directory


def to_string(value: bytes) -> str:
    """The 22 characters Kafka's tools print for these 16 bytes."""
    if len(value) != UUID_BYTES:
        raise ValueError(f"a UUID has {UUID_BYTES} bytes, not {len(value)}")
    return urlsafe_b64encode(value)[:-2].decode()


def from_string(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's notation. ValueError if ``text`` is not one (org.apache.kafka.common.Uuid)."""
    digits = text.removesuffix("==")
    if len(digits) != 22 or not _ALPHABET.issuperset(digits):
        raise ValueError(f"not a UUID: {text[:24]!r}")
    return urlsafe_b64decode(digits + "==")


def is_reserved(value: bytes) -> bool:
    """Whether Kafka keeps this id for itself: the first hundred numbers."""
    return int.from_bytes(value, "big") < RESERVED_UUIDS


def random_uuid(random_bytes: bytes) -> bytes:
    """A version 4 UUID from 16 random bytes. Callers draw again while `usable` says no."""
    if len(random_bytes) != UUID_BYTES:
        raise ValueError(f"a UUID needs {UUID_BYTES} random bytes, not {len(random_bytes)}")
    value = bytearray(random_bytes)
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)


def usable(value: bytes) -> bool:
    """Whether Kafka would hand out this id: not reserved, and its text does not start like an option, with a dash."""
    return not is_reserved(value) and value[0] >> 2 != 62
