"""The caches of a broker's disk: chunks and indexes outlive restarts, keep to their bounds, and are never believed."""

import os
import stat
from pathlib import Path
from random import Random

import pytest
from faulty_store import FaultyStore
from hypothesis import given
from hypothesis import strategies as st
from stored_segments import NEVER_MS, NO_LIMITS, Tiered, chunked, log_of, tiered

from kpybroker.hosts.remote_log.disk_chunks import FOLDER, ChunkName, DiskChunks
from kpybroker.hosts.remote_log.index_cache import FOLDER as INDEXES
from kpybroker.hosts.remote_log.index_cache import CachedIndexes, IndexCacheSettings
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpystorage.errors import CorruptObject
from kpystorage.remote.index_checks import check_index
from kpystorage.remote.indexes import IndexType
from kpywire.uuid import to_string

KINDS = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)
TRAILER_BYTES = 8


def name_of(number: int, segment: int = 1) -> ChunkName:
    return ChunkName(bytes((segment,)) * 16, number)


# Chunks


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=40), st.integers(1, 100))
def test_memory_keeps_the_chunks_that_were_used_last(puts: list[tuple[int, int]], most_bytes: int) -> None:
    chunks: RecentBytes[ChunkName] = RecentBytes(most_bytes, NEVER_MS, lambda: 0)
    order: list[tuple[int, int]] = []
    for number, size in puts:
        chunks.put(name_of(number), bytes(size))
        order = [each for each in order if each[0] != number] + [(number, size)]
        while len(order) > 1 and sum(size for _, size in order) > most_bytes:
            order.pop(0)
        assert [name_of(each) in chunks for each in range(6)] == [each in dict(order) for each in range(6)]
        assert chunks.bytes == sum(size for _, size in order)


def test_chunks_that_were_not_used_for_long_leave_memory() -> None:
    now = [0]
    chunks: RecentBytes[ChunkName] = RecentBytes(1000, 50, lambda: now[0])
    chunks.put(name_of(0), b"0")
    chunks.put(name_of(1), b"1")
    now[0] = 40
    assert chunks.get(name_of(0)) == b"0"
    now[0] = 80
    chunks.put(name_of(2), b"2")
    assert [name_of(each) in chunks for each in range(3)] == [True, False, True]


def test_files_of_chunks_are_closed_to_other_users(tmp_path: Path) -> None:
    chunks = DiskChunks(str(tmp_path), 1000, NEVER_MS)
    chunks.put(name_of(0), b"secret")
    (file,) = (tmp_path / FOLDER).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "gone"])
def test_a_damaged_chunk_on_the_disk_is_not_there(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    DiskChunks(str(tmp_path), 1000, NEVER_MS).put(name_of(0), b"0123456789")
    chunks = DiskChunks(str(tmp_path), 1000, NEVER_MS)
    (file,) = (tmp_path / FOLDER).iterdir()
    held = file.read_bytes()
    match damage:
        case "bit":
            file.write_bytes(b"9" + held[1:])
        case "cut":
            file.write_bytes(held[:-1])
        case "empty":
            file.write_bytes(b"")
        case _:
            file.unlink()
    assert chunks.get(name_of(0)) is None
    assert chunks.bytes == 0
    assert caplog.messages
    chunks.put(name_of(0), b"0123456789")
    assert chunks.get(name_of(0)) == b"0123456789"


def test_the_disk_keeps_to_its_bound_and_to_what_was_used_last(tmp_path: Path) -> None:
    chunks = DiskChunks(str(tmp_path), 3 * (10 + TRAILER_BYTES), NEVER_MS)
    for number in range(3):
        chunks.put(name_of(number), bytes(10))
    assert chunks.get(name_of(0)) == bytes(10)
    chunks.put(name_of(3), bytes(10))
    assert [name_of(each) in chunks for each in range(4)] == [True, False, True, True]
    for number in (0, 2, 3):  # the next run finds the order by the times of the files
        os.utime(tmp_path / FOLDER / f"{to_string(name_of(0).segment_id)}-{number}", (number, number))
    (tmp_path / FOLDER / "x.part").write_bytes(b"?")
    (tmp_path / FOLDER / "of-somebody").write_bytes(b"?")
    again = DiskChunks(str(tmp_path), 2 * (10 + TRAILER_BYTES), NEVER_MS)
    assert [name_of(each) in again for each in range(4)] == [False, False, True, True]
    assert len(list((tmp_path / FOLDER).iterdir())) == 3
    assert not DiskChunks(str(tmp_path), 1000, 60_000).bytes


def test_a_disk_that_fails_is_a_cache_that_is_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chunks = DiskChunks(str(tmp_path), 1000, NEVER_MS)
    (tmp_path / FOLDER).rmdir()
    for number in range(3):
        chunks.put(name_of(number), b"0")
    assert chunks.get(name_of(0)) is None
    assert sum("cannot be cached" in each for each in caplog.messages) == 1


# Indexes


class World:
    """A segment with indexes in a store, and a cache."""

    def __init__(self, path: Path, *, most_bytes: int = 1 << 20, ttl_ms: int = -1) -> None:
        self.store = FaultyStore()
        self.path = path
        self.settings = IndexCacheSettings(most_bytes, ttl_ms)
        self.segments = [self.copied(seed) for seed in range(4)]
        self.cache = self.opened()

    def copied(self, seed: int) -> Tiered:
        it = tiered(log_of(2000, seed), seed, with_transactions=False, start_offset=seed * 100)
        chunked(self.store).copy(it.segment, it.files, NO_LIMITS)
        return it

    def opened(self) -> CachedIndexes:
        return CachedIndexes(chunked(self.store), str(self.path), lambda: self.settings)

    def files(self) -> list[str]:
        return sorted(each.name for each in (self.path / INDEXES).iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_index_is_asked_for_once_and_kept_over_a_restart(world: World) -> None:
    it = world.segments[3]
    for opened in (lambda: world.cache, lambda: world.cache, world.opened):
        cache = opened()
        assert cache.index(it.segment, IndexType.OFFSET) == it.files.offset_index
        assert cache.index(it.segment, IndexType.TIMESTAMP) == it.files.time_index
        assert cache.index(it.segment, IndexType.TRANSACTION) is None
    assert world.store.count("get_range", ".indexes") == 2
    stem = f"300_{to_string(it.segment.id.segment_id)}"
    assert world.files() == [f"{stem}.index", f"{stem}.timeindex", f"{stem}.txnindex"]
    assert world.cache.index(it.segment, IndexType.LEADER_EPOCH) == it.files.leader_epochs


def test_a_deleted_segment_leaves_no_index(world: World) -> None:
    for each in world.segments:
        world.cache.index(each.segment, IndexType.OFFSET)
    world.cache.delete(world.segments[0].segment)
    assert len(world.files()) == 3
    assert len(list(world.cache.listed())) == 9


@pytest.mark.parametrize("damage", ["cut", "order", "gone"])
def test_a_damaged_index_is_read_again(world: World, damage: str) -> None:
    it = world.segments[1]
    world.cache.index(it.segment, IndexType.OFFSET)
    (file,) = (world.path / INDEXES).iterdir()
    if damage == "gone":
        file.unlink()
    else:
        held = file.read_bytes()
        file.write_bytes(held[:-3] if damage == "cut" else held + held[:8])
    again = world.opened()
    assert again.index(it.segment, IndexType.OFFSET) == it.files.offset_index
    assert file.read_bytes() == it.files.offset_index


def test_indexes_keep_to_their_bound(world: World) -> None:
    size = sum(len(each.files.offset_index) for each in world.segments[2:])
    world.settings = IndexCacheSettings(size, -1)
    for each in world.segments:
        world.cache.index(each.segment, IndexType.OFFSET)
    assert world.cache.bytes <= size
    assert world.cache.bytes == sum((world.path / INDEXES / each).stat().st_size for each in world.files())


def test_indexes_that_were_not_used_for_long_are_removed(world: World) -> None:
    world.settings = IndexCacheSettings(1 << 20, 0)
    for each in world.segments[:2]:
        world.cache.index(each.segment, IndexType.OFFSET)
    assert len(world.files()) == 1


def test_pieces_of_an_earlier_run_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / INDEXES).mkdir()
    for name in ("5_AAAAAAAAAAAAAAAAAAAAAA.index.tmp", "x.deleted", "readme"):
        (tmp_path / INDEXES / name).write_bytes(b"?")
    assert World(tmp_path).files() == ["readme"]


def test_an_index_that_is_damaged_in_the_store_is_an_error(world: World) -> None:
    it = world.segments[0]
    (key,) = (each for each in world.store.objects if "/00000000000000000000-" in each and each.endswith(".indexes"))
    world.store.objects[key] = b"\xff" * 8 + world.store.objects[key][8:]
    with pytest.raises(CorruptObject, match="offset index whose entries are not in order"):
        world.cache.index(it.segment, IndexType.OFFSET)
    assert not world.files()


@given(st.integers(1, 300), st.integers(0, 1 << 30))
def test_indexes_in_order_are_taken_and_others_are_not(count: int, seed: int) -> None:
    rng = Random(seed)
    numbers = sorted(rng.sample(range(1, 1 << 20), count))
    offsets = [number.to_bytes(4, "big") * 2 for number in numbers]
    times = [number.to_bytes(8, "big") + number.to_bytes(4, "big") for number in numbers]
    aborted = [bytes(18) + number.to_bytes(8, "big") + bytes(8) for number in numbers]
    for kind, entries in zip(KINDS, (offsets, times, aborted), strict=True):
        check_index(kind, b"".join(entries))
        with pytest.raises(CorruptObject):
            check_index(kind, b"".join(entries)[:-1])
        with pytest.raises(CorruptObject):
            check_index(kind, b"".join([*entries, entries[rng.randrange(count)]]))
