"""Segments in Aiven's layout: what is copied is read back, with few requests, little memory, and checksums."""

from pathlib import Path
from random import Random
from threading import Barrier, Event, Thread

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from faulty_store import FaultyStore
from hypothesis import given
from hypothesis import strategies as st
from stored_segments import NO_LIMITS, HeldFile, chunked, log_of, ranges, tiered

from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.remote_storage import CopyLimits, CopyStopped, ObjectMissing, StoreAway, StoreFailed
from kpystorage.errors import CorruptObject
from kpystorage.remote import custom_metadata, manifest
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.key_ring import KeyPair, KeyRing
from support.waiting import eventually

FORMS = ("plain", "compressed", "encrypted", "both")


@pytest.fixture(scope="module")
def ring() -> KeyRing:
    private = rsa.generate_private_key(65537, 2048)
    pem = serialization.Encoding.PEM
    public = private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    closed = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyRing("k", {"k": KeyPair(public, closed)}, Random(1).randbytes)


def form_of(name: str, ring: KeyRing, chunk_bytes: int = 1000) -> ChunkedForm:
    return ChunkedForm(
        "p/",
        chunk_bytes,
        compresses=name in ("compressed", "both"),
        key_ring=ring if name in ("encrypted", "both") else None,
    )


@pytest.mark.parametrize("name", FORMS)
@given(size=st.integers(1, 9000), chunk_bytes=st.integers(1, 3000), seed=st.integers(0, 1 << 20))
def test_ranges_of_a_copied_segment_are_read_back(
    name: str, ring: KeyRing, size: int, chunk_bytes: int, seed: int
) -> None:
    store = MemoryStore()
    form = form_of(name, ring, max(chunk_bytes, size // 40))
    it = tiered(log_of(size, seed), seed, with_transactions=seed % 2 == 0)
    assert chunked(store, form).copy(it.segment, it.files, NO_LIMITS) is None
    reader = chunked(store, form, memory_bytes=3 * form.chunk_bytes)
    for start, end in ranges(Random(seed), len(it.log), 6):
        assert reader.read(it.segment, start, end) == it.log[start:end]
    assert reader.index(it.segment, IndexType.OFFSET) == it.files.offset_index
    assert reader.index(it.segment, IndexType.TIMESTAMP) == it.files.time_index
    assert reader.index(it.segment, IndexType.PRODUCER_SNAPSHOT) == it.files.producer_snapshot
    assert reader.index(it.segment, IndexType.LEADER_EPOCH) == it.files.leader_epochs
    assert reader.index(it.segment, IndexType.TRANSACTION) == it.files.transaction_index
    reader.delete(it.segment)
    reader.delete(it.segment)
    assert not store.objects
    with pytest.raises(ObjectMissing):
        reader.read(it.segment, 0, 1)


@pytest.mark.parametrize("name", FORMS)
def test_any_changed_bit_of_a_chunk_is_noticed(name: str, ring: KeyRing) -> None:
    store = MemoryStore()
    form = form_of(name, ring)
    it = tiered(log_of(5000))
    chunked(store, form).copy(it.segment, it.files, NO_LIMITS)
    (key,) = (each for each in store.objects if each.endswith(".log"))
    whole = store.objects[key]
    rng = Random(3)
    for _ in range(30):
        at = rng.randrange(len(whole))
        store.objects[key] = whole[:at] + bytes((whole[at] ^ 1 << rng.randrange(8),)) + whole[at + 1 :]
        with pytest.raises(CorruptObject, match=r"\.log: chunk \d+ does not have the checksum"):
            chunked(store, form).read(it.segment, 0, len(it.log))


def test_plain_objects_are_the_log_file_and_indexes_that_the_manifest_finds() -> None:
    store = MemoryStore()
    it = tiered(log_of(5000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    kept = {key.rpartition(".")[2]: held for key, held in store.objects.items()}
    assert sorted(kept) == ["indexes", "log", "rsm-manifest"]
    assert kept["log"] == it.log
    found = manifest.parse(kept["rsm-manifest"])
    for index, place in found.indexes.items():
        held = kept["indexes"][place.position : place.position + place.size]
        assert held == chunked(store).index(it.segment, index)


def test_objects_without_checksums_are_read_and_their_batches_checked() -> None:
    store = MemoryStore()
    it = tiered(log_of(5000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    (indexes,) = (each for each in store.objects if each.endswith(".indexes"))
    (log,) = (each for each in store.objects if each.endswith(".log"))
    (described,) = (held for key, held in store.objects.items() if key.endswith("manifest"))
    end = max(place.position + place.size for place in manifest.parse(described).indexes.values())
    store.objects[indexes] = store.objects[indexes][:end]
    assert chunked(store).read(it.segment, 0, len(it.log)) == it.log
    damaged = bytearray(it.log)
    damaged[2500] ^= 1
    store.objects[log] = bytes(damaged)
    with pytest.raises(CorruptObject, match="the batch of offset"):
        chunked(store).read(it.segment, 0, len(it.log))


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_damaged_checksums_are_an_error(damage: str) -> None:
    store = MemoryStore()
    it = tiered(log_of(5000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    (key,) = (each for each in store.objects if each.endswith(".indexes"))
    whole = store.objects[key]
    store.objects[key] = whole[:-3] if damage == "cut" else whole[:-7] + b"\0" + whole[-6:]
    with pytest.raises(CorruptObject, match="checksums of"):
        chunked(store).read(it.segment, 0, 10)


def test_the_objects_of_another_segment_are_refused() -> None:
    store = MemoryStore()
    one, other = tiered(log_of(5000, 1), 1), tiered(log_of(5000, 2), 2)
    for each in (one, other):
        chunked(store).copy(each.segment, each.files, NO_LIMITS)
    manifests = sorted(key for key in store.objects if key.endswith("manifest"))
    first, second = (store.objects[key] for key in manifests)
    store.objects[manifests[0]], store.objects[manifests[1]] = second, first
    for each in (one, other):
        with pytest.raises(CorruptObject, match=r"segment of|another segment"):
            chunked(store).read(each.segment, 0, 1)


def test_an_encrypted_segment_without_keys_is_refused_in_one_line(ring: KeyRing) -> None:
    store = MemoryStore()
    it = tiered(log_of(100))
    chunked(store, form_of("encrypted", ring)).copy(it.segment, it.files, NO_LIMITS)
    with pytest.raises(StoreFailed, match="encrypted, and no keys are configured"):
        chunked(store).read(it.segment, 0, 1)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_segment_whose_first_batch_is_compressed_is_left_as_it_is(compressed: bool) -> None:
    store = MemoryStore()
    it = tiered(log_of(5000, compressed=compressed))
    form = ChunkedForm("", 1000, compresses=True, leaves_compressed=True)
    chunked(store, form).copy(it.segment, it.files, NO_LIMITS)
    (described,) = (held for key, held in store.objects.items() if key.endswith("manifest"))
    assert manifest.parse(described).compressed is not compressed


def test_custom_metadata_lead_to_objects_under_another_prefix() -> None:
    store = MemoryStore()
    it = tiered(log_of(3000))
    form = ChunkedForm("old/", 1000, custom_fields=frozenset({"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"}))
    custom = chunked(store, form).copy(it.segment, it.files, NO_LIMITS)
    found = custom_metadata.decode(custom)
    assert found.remote_size == sum(map(len, store.objects.values()))
    assert (found.object_prefix, found.object_key) == ("old/", min(store.objects)[4:].rpartition(".")[0])
    renamed = it.segment._replace(custom_metadata=custom)
    assert chunked(store, ChunkedForm("new/", 500)).read(renamed, 0, 3000) == it.log[:3000]
    chunked(store, ChunkedForm("new/", 500)).delete(renamed)
    assert not store.objects


# Copies


def test_a_copy_takes_the_memory_of_one_chunk() -> None:
    store = FaultyStore()
    it = tiered(log_of(50_000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    assert isinstance(it.files.log.descriptor, HeldFile)
    assert it.files.log.descriptor.largest_read == 1000
    assert store.largest_part < 2000


def test_the_manifest_is_written_last_and_not_behind_a_torn_upload() -> None:
    store = FaultyStore()
    it = tiered(log_of(5000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    assert [key.rpartition(".")[2] for action, key in store.requests if action == "put"] == [
        "log",
        "indexes",
        "rsm-manifest",
    ]
    torn = FaultyStore()
    torn.tears_uploads = True
    with pytest.raises(StoreAway, match=r"has \d+ bytes after \d+ were written"):
        chunked(torn).copy(it.segment, it.files, NO_LIMITS)
    assert not any(key.endswith("manifest") for key in torn.objects)


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
def test_a_copy_that_failed_leaves_nothing_behind_its_deletion(suffix: str) -> None:
    store = FaultyStore()
    it = tiered(log_of(5000))
    store.fail("put", suffix)
    with pytest.raises(StoreAway):
        chunked(store).copy(it.segment, it.files, NO_LIMITS)
    chunked(store).delete(it.segment)
    assert not store.objects


def test_a_copy_stops_before_its_next_part() -> None:
    written: list[int] = []
    limits = CopyLimits(lambda: len(written) == 3, written.append)
    store = FaultyStore()
    it = tiered(log_of(50_000))
    with pytest.raises(CopyStopped):
        chunked(store).copy(it.segment, it.files, limits)
    assert written == [1000, 1000, 1000]
    assert not store.objects


def test_the_limits_are_asked_for_every_byte_that_is_written() -> None:
    written: list[int] = []
    store = MemoryStore()
    it = tiered(log_of(50_000))
    chunked(store).copy(it.segment, it.files, CopyLimits(lambda: False, written.append))
    assert sum(written) == sum(map(len, store.objects.values()))


def test_a_log_file_that_is_shorter_than_its_segment_fails_the_copy() -> None:
    it = tiered(log_of(5000))
    assert isinstance(it.files.log.descriptor, HeldFile)
    it.files.log.descriptor.held = it.log[:-1]
    with pytest.raises(StoreFailed, match="the log file has"):
        chunked(MemoryStore()).copy(it.segment, it.files, NO_LIMITS)


# Requests


@pytest.fixture
def copied() -> FaultyStore:
    store = FaultyStore()
    it = tiered(log_of(20_000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    store.requests.clear()
    return store


def test_chunks_that_lie_side_by_side_come_by_one_request(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied)
    assert storage.read(it.segment, 0, 20_000) == it.log[:20_000]
    assert (copied.count("get", "manifest"), copied.count("get_range", ".indexes")) == (1, 1)
    assert copied.count("get_range", ".log") == 1
    assert storage.read(it.segment, 500, 9_000) == it.log[500:9_000]
    assert len(copied.requests) == 3


def test_only_the_chunks_that_are_missing_are_asked_for(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied)
    for start in (4000, 8000):
        storage.read(it.segment, start, start + 1000)
    before = copied.count("get_range", ".log")
    assert storage.read(it.segment, 3000, 10_000) == it.log[3000:10_000]
    assert copied.count("get_range", ".log") == before + 3


def test_readers_of_a_chunk_share_one_request(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied)
    storage.read(it.segment, 19_000, 19_001)
    copied.requests.clear()
    release = Event()
    copied.before = lambda _action, _key: release.wait(30)
    found: list[bytes] = []
    begin = Barrier(9)

    def read() -> None:
        begin.wait(30)
        found.append(storage.read(it.segment, 2100, 2900))

    threads = [Thread(target=read) for _ in range(8)]
    for each in threads:
        each.start()
    begin.wait(30)
    eventually(lambda: copied.requests)
    release.set()
    for each in threads:
        each.join(30)
    assert found == [it.log[2100:2900]] * 8
    assert len(copied.requests) == 1


def test_a_failed_request_fails_its_readers_and_the_next_one_is_made_again(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied)
    for suffix in ("manifest", ".indexes", ".log"):
        copied.fail("get" if suffix == "manifest" else "get_range", suffix)
        with pytest.raises(StoreAway):
            storage.read(it.segment, 0, 10)
    assert storage.read(it.segment, 0, 10) == it.log[:10]


def test_a_reader_that_goes_on_finds_the_next_chunks_there(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied, prefetch_bytes=3000)
    storage.read(it.segment, 0, 500)
    eventually(lambda: copied.count("get_range", ".log") == 4)
    assert storage.read(it.segment, 500, 4000) == it.log[500:4000]
    eventually(lambda: copied.count("get_range", ".log") == 7)
    assert storage.read(it.segment, 4000, 4100) == it.log[4000:4100]
    eventually(lambda: copied.count("get_range", ".log") == 8)
    assert copied.count("get_range", ".indexes") == 1
    storage.close()
    assert storage.read(it.segment, 5000, 5100) == it.log[5000:5100]
    assert copied.count("get_range", ".log") == 8


def test_a_reader_that_jumps_has_nothing_fetched_ahead(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied, prefetch_bytes=3000)
    for start in (15_000, 9000, 3000):
        storage.read(it.segment, start, start + 10)
    storage.close()
    assert copied.count("get_range", ".log") == 3


def test_chunks_in_memory_keep_to_their_bound(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    storage = chunked(copied, memory_bytes=5000)
    storage.read(it.segment, 0, 20_000)
    copied.requests.clear()
    storage.read(it.segment, 15_000, 20_000)
    assert not copied.requests
    storage.read(it.segment, 0, 1000)
    assert copied.count("get_range", ".log") == 1


def test_chunks_on_a_disk_outlive_a_restart(copied: FaultyStore, tmp_path: Path) -> None:
    it = tiered(log_of(20_000))
    chunked(copied, disk=tmp_path).read(it.segment, 0, 20_000)
    copied.requests.clear()
    again = chunked(copied, disk=tmp_path)
    assert again.read(it.segment, 0, 20_000) == it.log[:20_000]
    assert copied.count("get_range", ".log") == 0
    again.delete(it.segment)
    assert not list((tmp_path / "kpybroker-chunks").iterdir())


def test_a_stale_listing_names_objects_of_the_layout_alone(copied: FaultyStore) -> None:
    it = tiered(log_of(20_000))
    copied.objects["p/readme.txt"] = copied.objects["elsewhere"] = b"?"
    listed = sorted(chunked(copied).listed())
    assert [each.key.rpartition(".")[2] for each in listed] == ["indexes", "log", "rsm-manifest"]
    assert {(each.topic_id, each.partition, each.segment_id) for each in listed} == {
        (it.segment.id.topic_id, it.segment.id.partition, it.segment.id.segment_id)
    }
    assert sum(each.size_bytes for each in listed) == sum(
        len(held) for key, held in copied.objects.items() if "readme" not in key and key != "elsewhere"
    )
    copied.listing = [StoredObject("p/gone", 5)]
    assert not list(chunked(copied).listed())


def test_a_check_leaves_nothing_and_names_what_is_missing(copied: FaultyStore) -> None:
    before = dict(copied.objects)
    chunked(copied).check()
    assert copied.objects == before
    copied.listing = []
    with pytest.raises(StoreFailed, match="does not list"):
        chunked(copied).check()
