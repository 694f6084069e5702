"""SegmentEncryption: pieces under a data key, and the data key under an RSA key of a ring."""

import sys
from base64 import b64encode
from hashlib import sha3_512, sha256

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_segments import key_pair, random_bytes, same_key_pair

from kpystorage.errors import CorruptObject
from kpystorage.remote.encryption import ADDED_BYTES, SegmentKey
from kpystorage.remote.key_ring import KeyPair, KeyRing

KEY = bytes(range(32))
BY_BOUNCY_CASTLE = (
    "key1:"
    "qkF7gAO/ancTMfuxtrjrHRoAEeQj7BPK4OW9FkAnE7IGuw3OkK7GuHp6XSN5DfCQLJr1G1RzMgmIm5WTeNUXB5UqNfyScdkeYweV"
    "OwrqM5NuxM5dKLbqoPKtV8y7vMtPo2OztlpcuaJVdgjR2yc5jyADWm+eEn3/C+V1IiFGke7FMW8T/BS3XTyIsq6mNgmv0jNMdVOU"
    "MNunqiQfqC1YAKFuPOtOVCsRGEnMVG3ym8f0BWgzR8/nKUE/DoO7qwP2trESthc+FK01XY3IaHwIyLF/ceVkDZIifLUaPRKD4Tso"
    "qTOLfP0CUFmBGj2HAfxI+lVvaW99RC3fLE4QQrRM9w=="
)
"""``KEY`` under the key that is the same in every run."""


def ring(active: str = "key1", *names: str) -> KeyRing:
    return KeyRing(active, {name: key_pair(int(name[-1])) for name in (active, *names)}, random_bytes("ring"))


@given(st.binary(max_size=200))
def test_a_piece_is_decrypted_as_it_was(piece: bytes) -> None:
    key = SegmentKey.new(random_bytes())
    stored = key.encrypt(piece)
    assert len(stored) == len(piece) + ADDED_BYTES
    assert key.decrypt(stored) == piece
    assert key.encrypt(piece) != stored, "each piece has a vector of its own"


def test_changed_bytes_and_other_keys_are_refused() -> None:
    key = SegmentKey(KEY, b"aad", random_bytes())
    stored = key.encrypt(b"piece")
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 1
        with pytest.raises(CorruptObject, match="damaged, or of another key"):
            key.decrypt(changed)
    for other in (SegmentKey(KEY, b"other", random_bytes()), SegmentKey(KEY[::-1], b"aad", random_bytes())):
        with pytest.raises(CorruptObject, match="another key"):
            other.decrypt(stored)
    with pytest.raises(CorruptObject, match="27 encrypted bytes"):
        key.decrypt(bytes(27))
    with pytest.raises(ValueError, match="16 bytes, not 32"):
        SegmentKey(bytes(16), b"", random_bytes())


def test_a_new_key_and_its_additional_data_are_drawn_apart() -> None:
    key = SegmentKey.new(random_bytes())
    assert len(key.key) == len(key.aad) == 32
    assert key.key != key.aad


@settings(max_examples=5, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_a_wrapped_key_is_unwrapped(data_key: bytes) -> None:
    keys = ring()
    text = keys.wrap(data_key)
    assert text.startswith("key1:")
    assert keys.unwrap(text) == data_key
    assert keys.wrap(data_key) != text, "the padding is random"


def test_the_padding_is_that_of_bouncy_castle() -> None:
    keys = KeyRing("key1", {"key1": same_key_pair()}, random_bytes("ring"))
    assert keys.unwrap(BY_BOUNCY_CASTLE) == KEY
    ours = KeyRing("key1", {"key1": same_key_pair()}, lambda count: bytes(range(count))).wrap(KEY)
    assert keys.unwrap(ours) == KEY
    assert sha256(ours.encode()).hexdigest() == "ab9b0c23dc6818c07db02e17dad26be33864833cf31eb5c8582df903c5007684"


def test_an_older_key_of_the_ring_is_still_read() -> None:
    old = ring("key1").wrap(KEY)
    assert ring("key2", "key1").unwrap(old) == KEY
    assert ring("key2", "key1").wrap(KEY).startswith("key2:")
    with pytest.raises(CorruptObject, match="under 'key1', which is not in the key ring"):
        ring("key2").unwrap(old)


@pytest.mark.parametrize("text", ["", "key1", "key1:", "key1:AAAA", "key1:a:b", "key1:?", "x" * 1_000_000, ":AAAA"])
def test_a_text_without_a_wrapped_key_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(CorruptObject) as refused:
        ring().unwrap(text)
    assert len(str(refused.value)) < 200


def padded(*, first: int = 0, label: bytes = b"", zeros: int = 0, one: int = 1, message: bytes = KEY) -> str:
    """``message`` under the key of all runs, with a padding that may be wrong."""

    def mask(seed: bytes, size: int) -> int:
        stream = b"".join(sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(4))
        return int.from_bytes(stream[:size], "big")

    public = load_pem_public_key(same_key_pair().public).public_numbers()  # type: ignore[union-attr]
    filling = bytes((zeros,)) * (256 - 2 * 64 - 2 - len(message))
    block = sha3_512(label).digest() + filling + bytes((one,)) + message
    seed = bytes(range(64))
    masked = (int.from_bytes(block, "big") ^ mask(seed, len(block))).to_bytes(len(block), "big")
    masked_seed = (int.from_bytes(seed, "big") ^ mask(masked, 64)).to_bytes(64, "big")
    number = int.from_bytes(bytes((first,)) + masked_seed + masked, "big")
    encrypted = pow(number, public.e, public.n).to_bytes(256, "big")
    return "key1:" + b64encode(encrypted).decode()


def test_every_wrong_padding_is_refused_with_the_same_words() -> None:
    """Words about the kind of mistake would tell the key, bit by bit, to anyone that can change manifests."""
    keys = KeyRing("key1", {"key1": same_key_pair()}, random_bytes("ring"))
    assert keys.unwrap(padded()) == KEY
    wrong = [padded(first=1), padded(label=b"x"), padded(zeros=2), padded(one=0, message=KEY[:-1] + b"\0")]
    wrong += [padded(one=2), padded(message=KEY[:-1]), padded(message=KEY + b"!"), padded(message=b"")]
    for text in wrong:
        with pytest.raises(CorruptObject) as refused:
            keys.unwrap(text)
        assert str(refused.value) == "a data key that the key 'key1' does not decrypt"
    with pytest.raises(CorruptObject, match="255 bytes under 'key1'"):
        keys.unwrap("key1:" + b64encode(bytes(255)).decode())
    n = load_pem_public_key(same_key_pair().public).public_numbers().n  # type: ignore[union-attr]
    for number in (n, (1 << 2048) - 1):
        with pytest.raises(CorruptObject, match="256 bytes under 'key1'"):
            keys.unwrap("key1:" + b64encode(number.to_bytes(256, "big")).decode())


@pytest.mark.parametrize(
    ("active", "pairs", "reason"),
    [
        ("key9", {"key1": key_pair(1)}, "'key9' is not in the ring"),
        ("a:b", {"a:b": key_pair(1)}, "cannot have the name 'a:b'"),
        (" ", {" ": key_pair(1)}, "cannot have the name"),
        ("key1", {"key1": KeyPair(b"", b"")}, "no PEM files"),
        ("key1", {"key1": KeyPair(key_pair(1).private, key_pair(1).public)}, "no PEM files"),
        ("key1", {"key1": KeyPair(key_pair(1).public, key_pair(2).private)}, "do not belong together"),
        ("key1", {"key1": key_pair(1, 1024)}, "1024 bits, fewer than 2048"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_in_one_line(active: str, pairs: dict[str, KeyPair], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        KeyRing(active, pairs, random_bytes())
    assert "\n" not in str(refused.value)


def test_the_library_is_loaded_by_the_first_key_alone() -> None:
    """All of the layout but encryption works without it."""
    import subprocess

    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from kpystorage.remote import chunks, custom_metadata, encryption, indexes, key_ring, keys, manifest\n"
        "from kpystorage.remote import local_tiered_storage, transforms\n"
        "transforms.Transform(compressed=True).store(b'x')\n"
        "try: encryption.SegmentKey(bytes(32), b'', bytes)\n"
        "except ModuleNotFoundError: print('missing')\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.stdout == "missing\n", finished.stderr
