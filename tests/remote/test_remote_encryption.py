"""Encryption: pieces under a data key, and the data key under an RSA key of a ring."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_segments import key_pair, random_bytes

from kpystorage.errors import CorruptObject
from kpystorage.remote.encryption import ADDED_BYTES, SegmentKey
from kpystorage.remote.key_ring import KeyPair, KeyRing

KEY = bytes(range(32))


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


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_a_wrapped_key_is_unwrapped(data_key: bytes) -> None:
    keys = ring()
    text = keys.wrap(data_key)
    assert text.startswith("key1:")
    assert keys.unwrap(text) == data_key
    assert keys.wrap(data_key) != text, "the padding is random"


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


def test_every_way_of_a_wrong_padding_is_refused_with_the_same_words() -> None:
    """A word about the kind of mistake would tell one who can change manifests the key, bit by bit."""
    keys = ring("key1", "key2")
    swapped = "key1:" + keys.wrap(KEY).replace("key1:", "")[::-1].replace("=", "A")
    short, own = keys.wrap(KEY[:31]), keys.wrap(KEY)
    other = own[:20] + ("A" if own[20] != "A" else "B") + own[21:]
    words = set()
    for text in (short, other, swapped, own.replace("key1", "key2")):
        with pytest.raises(CorruptObject) as refused:
            keys.unwrap(text)
        words.add(str(refused.value).replace("key2", "key1"))
    words = {each for each in words if "bytes under" not in each}
    assert words == {"a data key that the key 'key1' does not decrypt"}


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
