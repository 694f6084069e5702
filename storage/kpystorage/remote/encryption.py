"""The encryption of chunks and indexes: AES-256-GCM under a data key of the segment (Aiven's plugin, version 1).

A stored piece is 12 random bytes (the initialization vector), the encrypted bytes, and a tag of 16 bytes. Each piece is
also bound to the additional data (``aad``) of the segment's manifest. `cryptography` is loaded by the first key.
"""

from collections.abc import Callable
from typing import Final

from kpystorage.errors import CorruptObject
from kpywire.varint import Buffer

KEY_BYTES: Final = 32
AAD_BYTES: Final = 32
VECTOR_BYTES: Final = 12
TAG_BYTES: Final = 16
ADDED_BYTES: Final = VECTOR_BYTES + TAG_BYTES

RandomBytes = Callable[[int], bytes]
"""A source of random bytes that cannot be guessed."""


class SegmentKey:
    """The key of one segment, and its additional data."""

    def __init__(self, key: bytes, aad: bytes, random_bytes: RandomBytes) -> None:
        """ValueError if the key does not have 32 bytes; ModuleNotFoundError without `cryptography`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(key) != KEY_BYTES:
            raise ValueError(f"a data key of {len(key)} bytes, not {KEY_BYTES}")
        self.key, self.aad = key, aad
        self._cipher = AESGCM(key)
        self._random_bytes = random_bytes

    @staticmethod
    def new(random_bytes: RandomBytes) -> "SegmentKey":
        """The key of a new segment: key and additional data are random, and drawn apart."""
        return SegmentKey(random_bytes(KEY_BYTES), random_bytes(AAD_BYTES), random_bytes)

    def encrypt(self, piece: Buffer) -> bytes:
        """The stored form of a piece, ``ADDED_BYTES`` longer."""
        vector = self._random_bytes(VECTOR_BYTES)
        return vector + self._cipher.encrypt(vector, piece, self.aad)

    def decrypt(self, stored: Buffer) -> bytes:
        """The piece in its stored form. CorruptObject if a bit of it was changed, or the key is another's."""
        from cryptography.exceptions import InvalidTag

        if len(stored) < ADDED_BYTES:
            raise CorruptObject(f"{len(stored)} encrypted bytes, fewer than {ADDED_BYTES}")
        view = memoryview(stored)
        try:
            return self._cipher.decrypt(bytes(view[:VECTOR_BYTES]), view[VECTOR_BYTES:], self.aad)
        except InvalidTag:
            raise CorruptObject("encrypted bytes that are damaged, or of another key") from None
