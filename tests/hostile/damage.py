"""Requests that are damaged in known places, so that a failure can be made smaller: what remains says what matters.

A damaged request is an ordinary one and a list of edits. Everything follows from a seed.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from catalogue import Specimen, arbitrary

from kpywire import api

SMALLEST = 8
"""Bytes of a request that are left alone by lies: api key, version, correlation id."""
LIES = (
    b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 12, b"\xfe",
    b"\x00\x00\x00\x00", b"\x00\x10\x00\x00",
)  # fmt: skip
FRAME_LIES = (-(2**31), -1, 0, 7, 8, 2**31 - 1, 100 * 1024 * 1024)


class Edit(NamedTuple):
    """``removed`` bytes at ``position`` are replaced."""

    position: int
    removed: int
    inserted: bytes


class Damaged(NamedTuple):
    """One damaged request. ``frame_size`` is what its frame claims, if not the truth."""

    specimen: Specimen
    kind: str
    edits: tuple[Edit, ...]
    frame_size: int | None = None

    @property
    def payload(self) -> bytes:
        """Header and body as they are sent."""
        data = self.specimen.payload
        for edit in self.edits:
            data = data[: edit.position] + edit.inserted + data[edit.position + edit.removed :]
        return data

    @property
    def frame(self) -> bytes:
        """The bytes that go into the socket."""
        payload = self.payload
        size = len(payload) if self.frame_size is None else self.frame_size
        return struct.pack(">i", size) + payload

    def smaller(self) -> Iterator["Damaged"]:
        """The same with one edit less, for each of them."""
        for index in range(len(self.edits)):
            yield self._replace(edits=self.edits[:index] + self.edits[index + 1 :])

    def __str__(self) -> str:
        claimed = "" if self.frame_size is None else f" in a frame of {self.frame_size} bytes"
        return f"{self.specimen}, {self.kind}{claimed}, {len(self.edits)} edits: {self.payload.hex()}"


Damage = Callable[[Specimen, Random], Damaged]


def cut_off(specimen: Specimen, rng: Random) -> Damaged:
    """Ends somewhere; its frame tells the truth."""
    length = rng.randrange(len(specimen.payload))
    return Damaged(specimen, "cut off", (Edit(length, len(specimen.payload), b""),))


def flipped(specimen: Specimen, rng: Random) -> Damaged:
    """One to four bits turned over, anywhere behind the api key and version."""
    edits = []
    data = bytearray(specimen.payload)
    for _ in range(rng.randrange(1, 5)):
        bit = rng.randrange(4 * 8, len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        edits.append(Edit(bit // 8, 1, data[bit // 8 : bit // 8 + 1]))
    return Damaged(specimen, "bits turned over", tuple(map(_frozen, edits)))


def lying(specimen: Specimen, rng: Random) -> Damaged:
    """A number somewhere that says too much: a length, a count, a varint, a tag."""
    size = len(specimen.payload)
    lie = rng.choice((*LIES, struct.pack(">i", size)))
    position = rng.randrange(SMALLEST, size + 1)
    return Damaged(specimen, "a lie", (Edit(position, 0 if rng.random() < 0.3 else len(lie), lie),))


def absurd(specimen: Specimen, rng: Random) -> Damaged:
    """Well formed, filled with edges of types; one in three with a bit turned over."""
    filled = arbitrary(specimen.key, specimen.version, rng)
    if rng.random() < 0.3:
        return flipped(filled, rng)._replace(kind="absurd values, bits turned over")
    return Damaged(filled, "absurd values", ())


def misframed(specimen: Specimen, rng: Random) -> Damaged:
    """A whole request whose frame claims another size, or that ends before its frame does."""
    size = len(specimen.payload)
    claimed = rng.choice((*FRAME_LIES, size + rng.randrange(1, 100), rng.randrange(size)))
    if rng.random() < 0.5:
        kept = rng.randrange(size)
        return Damaged(specimen, "a frame that breaks off", (Edit(kept, size, b""),), frame_size=size)
    return Damaged(specimen, "a frame of another size", (), frame_size=claimed)


def _frozen(edit: Edit) -> Edit:
    return edit._replace(inserted=bytes(edit.inserted))


SHARES: tuple[tuple[Damage, float], ...] = (
    (cut_off, 0.25), (flipped, 0.35), (lying, 0.2), (absurd, 0.1), (misframed, 0.1),
)  # fmt: skip


def damaged(specimens: Sequence[Specimen], count: int, seed: int) -> Iterator[Damaged]:
    """``count`` damaged requests of one API, of all its versions in turn."""
    rng = Random(f"{seed} {api.API_KEYS[specimens[0].key].name}")
    damages, weights = zip(*SHARES, strict=True)
    for number, damage in enumerate(rng.choices(damages, weights, k=count)):
        yield damage(specimens[number % len(specimens)], rng)
