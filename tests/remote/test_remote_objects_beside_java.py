"""Objects in both directions: ours are read, and those read by us are written, by a second program for the same format.

It is written in Java from the description of the format, with the libraries of Aiven's plugin: Jackson, zstd-jni and
Bouncy Castle (compat-tests/oracle/RemoteObjectOracle.java). The plugin's own jars are in no registry. Custom metadata
is compared with Kafka's own types, of which the plugin makes it.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from java_programs import JavaProgram
from remote_segments import KINDS, contents, key_pair, random_bytes, read, stored

from kpystorage.remote import custom_metadata, indexes, manifest
from kpystorage.remote.custom_metadata import CustomMetadata
from kpystorage.remote.encryption import SegmentKey
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.key_ring import KeyRing
from kpystorage.remote.transforms import Transform

pytestmark = pytest.mark.java
SHAPES = [(1, 1), (1000, 4096), (1000, 1000), (4097, 1024), (50_000, 777), (300_000, 65_536), (3000, 2)]
"""Bytes of a segment and of its chunks."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProgram]:
    program = JavaProgram("RemoteObjectOracle")
    yield program
    program.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    pair = key_pair()
    (tmp_path / "public.pem").write_bytes(pair.public)
    (tmp_path / "private.pem").write_bytes(pair.private)
    return tmp_path


def ring() -> KeyRing:
    return KeyRing("key1", {"key1": key_pair()}, random_bytes("ring"))


def files_of(rng: Random) -> dict[IndexType, bytes]:
    found = {each: rng.randbytes(rng.choice([0, 8, 500])) for each in IndexType}
    if rng.random() < 0.5:
        del found[IndexType.TRANSACTION]
    return found


def ranges(size: int, rng: Random) -> Iterator[tuple[int, int]]:
    yield from ((0, size), (0, 1), (size - 1, size), (size, size + 5), (0, size + 5))
    for _ in range(10):
        start = rng.randrange(size)
        yield start, rng.randrange(start, size + 1)


@pytest.mark.parametrize(("compressed", "encrypted"), KINDS)
@pytest.mark.parametrize(("size", "chunk_bytes"), SHAPES)
def test_java_reads_our_objects(
    java: JavaProgram, home: Path, size: int, chunk_bytes: int, *, compressed: bool, encrypted: bool
) -> None:
    rng = Random(f"ours {size} {compressed} {encrypted}")
    segment, files = contents(size, 7), files_of(rng)
    key = SegmentKey.new(random_bytes("data")) if encrypted else None
    log, chunks = stored(segment, chunk_bytes, Transform(compressed, key))
    parts, places = indexes.join(files, key)
    encryption = manifest.SegmentEncryption(ring().wrap(key.key), key.aad) if key is not None else None
    (home / "log").write_bytes(log)
    (home / "indexes").write_bytes(b"".join(map(bytes, parts)))
    (home / "manifest").write_bytes(manifest.render(manifest.SegmentManifest(chunks, places, compressed, encryption)))
    for start, end in ranges(size, rng):
        assert java.ask("load", home, start, end) == segment[start:end].hex()
    for each, file in files.items():
        assert java.ask("index", home, each.value) == file.hex()


@pytest.mark.parametrize(("compressed", "encrypted"), KINDS)
@pytest.mark.parametrize(("size", "chunk_bytes"), SHAPES)
def test_we_read_the_objects_of_java(
    java: JavaProgram, home: Path, size: int, chunk_bytes: int, *, compressed: bool, encrypted: bool
) -> None:
    rng = Random(f"javas {size} {compressed} {encrypted}")
    segment, files = contents(size, 8), files_of(rng)
    (home / "segment").write_bytes(segment)
    for each, file in files.items():
        (home / each.value).write_bytes(file)
    assert java.ask("store", home, chunk_bytes, str(compressed).lower(), str(encrypted).lower()) == "ok"
    found = manifest.parse((home / "manifest").read_bytes())
    assert found.compressed == compressed
    key = None
    if found.encryption is not None:
        key = SegmentKey(ring().unwrap(found.encryption.data_key), found.encryption.aad, random_bytes())
    assert (key is not None) == encrypted
    log, joined = (home / "log").read_bytes(), (home / "indexes").read_bytes()
    assert found.chunks.stored_bytes == len(log)
    for start, end in ranges(size, rng):
        assert read(log, found.chunks, Transform(compressed, key), start, end) == segment[start:end]
    assert set(found.indexes) == set(files)
    for each, place in found.indexes.items():
        stored_file = joined[place.position : place.position + place.size]
        assert indexes.restore(place, stored_file, key) == files[each]


def test_custom_metadata_has_kafkas_bytes(java: JavaProgram) -> None:
    rng = Random(3)
    for _ in range(300):
        size = rng.choice([None, 0, 1, 63, 64, 2**31, 2**63 - 1, rng.randrange(10**9)])
        prefix, key = (rng.choice([None, "", "p", "é", "x" * 126, "x" * 127, "y" * 128, "z" * 300]) for _ in range(2))
        metadata = CustomMetadata(size, prefix, key)
        ours = custom_metadata.encode(metadata)
        kafkas = java.ask("custom", *("-" if each is None else each for each in metadata))
        assert kafkas == (ours or b"\0").hex(), "the plugin writes nothing where there is no field"
        if ours:
            fields = ", ".join(f"{tag}={value}" for tag, value in enumerate(metadata) if value is not None)
            assert java.ask("customs", ours.hex()) == f"{{{fields}}}"
        assert custom_metadata.decode(bytes.fromhex(kafkas)) == metadata
