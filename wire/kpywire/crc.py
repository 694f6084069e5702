"""CRC-32C (Castagnoli), the checksum of record batches. Not the CRC-32 of zlib, which message formats before v2 had."""

from collections.abc import Callable

from crc32c import crc32c as _crc32c

from kpywire.varint import Buffer

crc32c: Callable[[Buffer], int] = _crc32c
"""The CRC-32C of a buffer; the name is the C function itself, and it releases the GIL on long input."""
