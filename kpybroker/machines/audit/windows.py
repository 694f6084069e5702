"""Windows of a log: 65 536 offsets each, with the number of their batches and records and a digest. Pure.

A batch belongs to the window of its base offset. A digest is the SHA-256 of its batches' headers without the leader
epoch, which each leader stamps for itself. A header holds the CRC-32C of all that follows it, and the walk compares
that with the bytes. So equal digests mean equal headers, and bodies that differ only where a CRC-32C collides: one
flipped bit, or any burst of up to 32 bits, is never missed, and other accidents in one of 2^32 cases. A forger can make
CRC-32C collide; where that matters, a deep audit takes the SHA-256 of every byte.

The first and the last window of a stretch stay open: they carry their headers, so that a stretch may begin anywhere.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple

WINDOW_OFFSETS: Final = 1 << 16
SHIFT: Final = 16
_LEAF = Struct(">qqqq")


class AuditWindow(NamedTuple):
    """The batches whose base offsets lie in one window. ``digest`` is empty while the window is open."""

    number: int
    base: int
    next_offset: int
    batches: int
    records: int
    digest: bytes
    entries: bytes = b""

    def joined(self, behind: "AuditWindow") -> "AuditWindow":
        """This open window with the rest of it."""
        return AuditWindow(
            self.number,
            self.base,
            behind.next_offset,
            self.batches + behind.batches,
            self.records + behind.records,
            b"",
            self.entries + behind.entries,
        )

    def sealed(self) -> "AuditWindow":
        """The window with its digest, and without the headers."""
        return self if self.digest else self._replace(digest=sha256(self.entries).digest(), entries=b"")

    @property
    def leaf(self) -> bytes:
        """The hash of the window as a leaf of the Merkle tree."""
        numbers = _LEAF.pack(self.base, self.next_offset, self.batches, self.records)
        return sha256(b"\0" + numbers + self.digest).digest()


def joined(before: Sequence[AuditWindow], behind: Sequence[AuditWindow]) -> tuple[AuditWindow, ...]:
    """The windows of two stretches in a row. The windows on both sides of the seam are open."""
    if not before or not behind:
        return (*before, *behind)
    if before[-1].number == behind[0].number:
        middle = [before[-1].joined(behind[0])]
    else:
        middle = [before[-1], behind[0]]
    inner = [*before[:-1], *middle, *behind[1:]]
    return (*inner[:1], *(window.sealed() for window in inner[1:-1]), *inner[1:][-1:])


def root(windows: Iterable[AuditWindow]) -> bytes:
    """The root of the Merkle tree over sealed windows. A node's hash begins with 1 and a leaf's with 0 (RFC 6962)."""
    level = [window.leaf for window in windows]
    if not level:
        return sha256(b"").digest()
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [sha256(b"\1" + left + right).digest() for left, right in pairs] + odd
    return level[0]
