"""The RSA keys under which the data keys of segments are kept in manifests (Aiven's plugin, version 1).

A manifest holds ``KEY_ID:BASE64``, the data key encrypted under the public key of that name by OAEP with SHA3-512 (also
in MGF1) and an empty label (RFC 8017, section 7.1). One key of the ring is active, the others are there to read what is
older. `cryptography` reads the keys. It does not offer OAEP with this hash, so the padding is here, and the arithmetic
is blinded by a random number, since Python's takes longer for some numbers.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha3_512
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.encryption import KEY_BYTES, RandomBytes
from kpystorage.remote.segment_name import shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

_HASH_BYTES: Final = 64
_NO_LABEL: Final = sha3_512(b"").digest()
_LEAST_BITS: Final = 2048


class KeyPair(NamedTuple):
    """The files of one RSA key: SubjectPublicKeyInfo and PKCS #8, both PEM."""

    public: bytes
    private: bytes


class KeyRing:
    """The RSA keys by their names."""

    def __init__(self, active: str, pairs: Mapping[str, KeyPair], random_bytes: RandomBytes) -> None:
        """ValueError, in one line, if a key or a name cannot be used; ModuleNotFoundError without `cryptography`."""
        if active not in pairs:
            raise ValueError(f"the active key {active!r} is not in the ring")
        for name in pairs:
            if not name.strip() or ":" in name:
                raise ValueError(f"a key cannot have the name {name!r}")
        self.active = active
        self._keys = {name: _numbers(name, pair) for name, pair in pairs.items()}
        self._random_bytes = random_bytes

    def wrap(self, data_key: bytes) -> str:
        """The text for a manifest, under the active key."""
        public = self._keys[self.active].public_numbers
        size = _size_of(public.n)
        padded = int.from_bytes(_pad(data_key, size, self._random_bytes(_HASH_BYTES)), "big")
        return f"{self.active}:{b64encode(pow(padded, public.e, public.n).to_bytes(size, 'big')).decode()}"

    def unwrap(self, text: str) -> bytes:
        """The data key in the text of a manifest. CorruptObject if it is none, or of a key that is not here."""
        name, colon, encoded = text.partition(":")
        if not colon or ":" in encoded:
            raise CorruptObject(f"no encrypted data key: {shown(text)}")
        if name not in self._keys:
            raise CorruptObject(f"a data key under {shown(name)}, which is not in the key ring")
        numbers = self._keys[name]
        size = _size_of(numbers.public_numbers.n)
        try:
            encrypted = b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise CorruptObject(f"no encrypted data key: {shown(text)}") from None
        number = int.from_bytes(encrypted, "big")
        if len(encrypted) != size or number >= numbers.public_numbers.n:
            raise CorruptObject(f"an encrypted data key of {len(encrypted)} bytes under {shown(name)}")
        data_key = _unpad(self._decrypted(number, numbers).to_bytes(size, "big"))
        if data_key is None or len(data_key) != KEY_BYTES:
            raise CorruptObject(f"a data key that the key {shown(name)} does not decrypt")
        return data_key

    def _decrypted(self, number: int, key: "RSAPrivateNumbers") -> int:
        n, e = key.public_numbers.n, key.public_numbers.e
        blind = 2 + int.from_bytes(self._random_bytes(_size_of(n)), "big") % (n - 2)
        blinded = number * pow(blind, e, n) % n
        by_p, by_q = pow(blinded, key.dmp1, key.p), pow(blinded, key.dmq1, key.q)
        found = by_q + key.q * ((by_p - by_q) * key.iqmp % key.p)
        return found * pow(blind, -1, n) % n


def _numbers(name: str, pair: KeyPair) -> "RSAPrivateNumbers":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        public, private = load_pem_public_key(pair.public), load_pem_private_key(pair.private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError(f"the files of the key {name!r} are no PEM files of a key pair without a password") from None
    if not isinstance(public, RSAPublicKey) or not isinstance(private, RSAPrivateKey):
        raise ValueError(f"the key {name!r} is not of RSA")
    if private.public_key().public_numbers() != public.public_numbers():
        raise ValueError(f"the public and the private key of {name!r} do not belong together")
    if public.key_size < _LEAST_BITS:
        raise ValueError(f"the key {name!r} has {public.key_size} bits, fewer than {_LEAST_BITS}")
    return private.private_numbers()


def _size_of(n: int) -> int:
    return (n.bit_length() + 7) // 8


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 with SHA3-512."""
    rounds = range(-(-size // _HASH_BYTES))
    return b"".join(sha3_512(seed + number.to_bytes(4, "big")).digest() for number in rounds)[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def _pad(message: bytes, size: int, seed: bytes) -> bytes:
    """EME-OAEP: ``message`` in ``size`` bytes."""
    block = _NO_LABEL + bytes(size - len(message) - 2 * _HASH_BYTES - 2) + b"\x01" + message
    masked = _xor(block, _mask(seed, len(block)))
    return b"\0" + _xor(seed, _mask(masked, _HASH_BYTES)) + masked


def _unpad(padded: bytes) -> bytes | None:
    """The message; None, without a word why, if the padding is not whole."""
    masked = padded[1 + _HASH_BYTES :]
    seed = _xor(padded[1 : 1 + _HASH_BYTES], _mask(masked, _HASH_BYTES))
    block = _xor(masked, _mask(seed, len(masked)))
    zeros, one, message = block[_HASH_BYTES:].partition(b"\x01")
    label = compare_digest(block[:_HASH_BYTES], _NO_LABEL)
    is_whole = label & (padded[0] == 0) & (one == b"\x01") & (not zeros.strip(b"\0"))
    return message if is_whole else None
