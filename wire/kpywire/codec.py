"""Messages to bytes and back, at any of their versions (KIP-482 for the flexible ones).

The first use of a (message, version) compiles one function for it (`kpywire.decoding`, `kpywire.encoding`).

Invariant: whatever the bytes, decoding returns a message or raises `Malformed`, with memory in proportion to them.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kpywire.decoding import compile_decoder
from kpywire.encoding import EncodedStructs, compile_encoder
from kpywire.errors import UnsupportedVersion
from kpywire.varint import Buffer

__all__ = [
    "EncodedStructs",
    "decode",
    "decoder",
    "decoder_in_steps",
    "decoder_of_few",
    "encode",
    "encode_struct",
    "encode_with_records",
    "encoder",
    "encoder_in_steps",
]

T = TypeVar("T")

_decoders: dict[tuple[type, int], Any] = {}
_encoders: dict[tuple[type, int], Any] = {}
_decoders_of_few: dict[tuple[type, int], Any] = {}
_decoders_in_steps: dict[tuple[type, int, int | None], Any] = {}
_encoders_in_steps: dict[tuple[type, int], Any] = {}
_struct_encoders: dict[tuple[type, type, int], Any] = {}


def decoder(cls: type[T], version: int) -> Callable[[Buffer, int], tuple[T, int]]:
    """Return a function from a buffer of bytes and a start position to the message there and the position after it.

    Strings and bytes are copied out; records stay memoryviews of the buffer. Unknown tagged fields are dropped. The
    function raises `Malformed`; asking for a version that the message does not have raises `UnsupportedVersion`.
    """
    found: Callable[[Buffer, int], tuple[T, int]] | None = _decoders.get((cls, version))
    if found is None:
        _check(cls, version)
        found = _decoders[cls, version] = compile_decoder(cls, version)
    return found


def encoder(cls: type[T], version: int) -> Callable[[T, list[Any]], None]:
    """Return a function that appends a message to a list of buffers. Records are appended as the object they are.

    The function raises `UnsupportedVersion` if the message holds a value that the version cannot carry and Kafka does
    not declare ignorable, ValueError if a number or a string does not fit its type.
    """
    found: Callable[[T, list[Any]], None] | None = _encoders.get((cls, version))
    if found is None:
        _check(cls, version)
        flexible = version in cls.FLEXIBLE  # type: ignore[attr-defined]
        found = _encoders[cls, version] = compile_encoder(cls, version, flexible=flexible)
    return found


def decoder_of_few(cls: type[T], version: int) -> Callable[[Buffer, int], tuple[T, int]]:
    """Like `decoder`. The function raises `ManyElements` for a message that is to be decoded in steps."""
    found: Callable[[Buffer, int], tuple[T, int]] | None = _decoders_of_few.get((cls, version))
    if found is None:
        _check(cls, version)
        found = _decoders_of_few[cls, version] = compile_decoder(cls, version, only_few=True)
    return found


def decoder_in_steps(
    cls: type[T], version: int, most_bytes: int | None = None
) -> Callable[[Buffer, int], Generator[None, None, tuple[T, int]]]:
    """Like `decoder`, for messages that may have many elements: it yields now and then, and returns what a decoder
    returns. ``most_bytes``: the memory that the elements may take, if it is less than usual."""
    found: Any = _decoders_in_steps.get((cls, version, most_bytes))
    if found is None:
        _check(cls, version)
        found = compile_decoder(cls, version, in_steps=True, most_bytes=most_bytes)
        _decoders_in_steps[cls, version, most_bytes] = found
    return found  # type: ignore[no-any-return]


def encoder_in_steps(cls: type[T], version: int) -> Callable[[T, list[Any]], Generator[None, None, None]]:
    """Like `encoder`, for messages that may have many elements: it yields now and then."""
    found: Any = _encoders_in_steps.get((cls, version))
    if found is None:
        _check(cls, version)
        flexible = version in cls.FLEXIBLE  # type: ignore[attr-defined]
        found = _encoders_in_steps[cls, version] = compile_encoder(cls, version, flexible=flexible, in_steps=True)
    return found  # type: ignore[no-any-return]


def decode(cls: type[T], version: int, buffer: Buffer, position: int = 0) -> T:
    """The message at ``position``. Bytes after it are ignored, as Kafka ignores them."""
    return decoder(cls, version)(buffer, position)[0]


def encode(message: object, version: int) -> bytes:
    """The message as one piece of bytes; its records, if any, must be buffers."""
    parts: list[Any] = []
    encoder(type(message), version)(message, parts)
    return b"".join(parts)


def encode_struct(struct: object, message: Any, version: int) -> bytes:
    """A struct's bytes in a version of a message, for `EncodedStructs`. Raises as encoding the message would."""
    return b"".join(_parts_of(struct, message, version))


def encode_with_records(struct: object, message: Any, version: int) -> bytes | list[Any]:
    """The bytes of a struct with one field of records, which stay the object they are unless they are empty."""
    parts = _parts_of(struct, message, version)
    return bytes(parts[0]) if len(parts) == 1 else parts


def _parts_of(struct: object, message: Any, version: int) -> list[Any]:
    key = type(struct), message, version
    found = _struct_encoders.get(key)
    if found is None:
        _check(message, version)
        found = _struct_encoders[key] = compile_encoder(key[0], version, flexible=version in message.FLEXIBLE)
    parts: list[Any] = []
    found(struct, parts)
    return parts


def _check(cls: Any, version: int) -> None:
    if version not in cls.VERSIONS:
        raise UnsupportedVersion(f"{cls.__name__} has no version {version}")
