"""The codecs of record sections."""

from kpywire.errors import Malformed
from kpywire.varint import Buffer

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    if codec == NONE:
        return bytes(data)
    raise Malformed(f"compression codec {codec} does not exist")


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    if codec == NONE and len(data) <= max_bytes:
        return bytes(data)
    raise Malformed(f"compression codec {codec} does not exist")
