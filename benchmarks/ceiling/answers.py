"""The file of answers that ``ceiling.c`` reads."""

import struct
from collections.abc import Mapping, Sequence

from benchmarks.ceiling.files import Piece


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def written(answers: Mapping[bytes, bytes], topics: Mapping[tuple[bytes, bytes], Sequence[Piece]]) -> bytes:
    """``answers`` by request without its correlation id; for the (name, id) of each topic its pieces, in order."""
    entries = [b"A" + sized(key) + sized(answer) for key, answer in answers.items()]
    for (name, topic_id), pieces in topics.items():
        entries.append(b"T" + sized(name) + sized(topic_id))
        entries += [
            b"F"
            + struct.pack(">iqqi", each.partition, each.offset, each.position, each.length)
            + sized(each.path.encode())
            + sized(each.head)
            + sized(each.tail)
            for each in pieces
        ]
    return b"".join(entries)
