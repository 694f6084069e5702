"""Segments in the layout of Kafka's LocalTieredStorage. Kafka's own class is asked in ``tests/remote``."""

from pathlib import Path
from random import Random

import pytest
from stored_segments import NO_LIMITS, log_of, ranges, tiered

from kpybroker.hosts.remote_log.directory_store import DirectoryStore
from kpybroker.hosts.remote_log.local_tiered_storage import LocalTieredStorage
from kpybroker.hosts.remote_log.remote_storage import CopyLimits, CopyStopped, ObjectMissing, StoreFailed
from kpystorage.errors import CorruptObject
from kpystorage.remote.indexes import IndexType


@pytest.fixture
def storage(tmp_path: Path) -> LocalTieredStorage:
    return LocalTieredStorage(DirectoryStore(str(tmp_path / "made"), makes_root=True))


@pytest.mark.parametrize("with_transactions", [False, True])
def test_a_segment_is_copied_read_listed_and_deleted(
    storage: LocalTieredStorage, tmp_path: Path, with_transactions: bool
) -> None:
    storage.check()
    it = tiered(log_of(9000), with_transactions=with_transactions)
    assert storage.copy(it.segment, it.files, NO_LIMITS) is None
    for start, end in ranges(Random(1), len(it.log), 0):
        assert storage.read(it.segment, start, end) == it.log[start:end]
    assert storage.index(it.segment, IndexType.OFFSET) == it.files.offset_index
    assert storage.index(it.segment, IndexType.TIMESTAMP) == it.files.time_index
    assert storage.index(it.segment, IndexType.PRODUCER_SNAPSHOT) == it.files.producer_snapshot
    assert storage.index(it.segment, IndexType.LEADER_EPOCH) == it.files.leader_epochs
    assert storage.index(it.segment, IndexType.TRANSACTION) == it.files.transaction_index
    listed = list(storage.listed())
    assert len(listed) == 5 + with_transactions
    assert {each.segment_id for each in listed} == {it.segment.id.segment_id}
    LocalTieredStorage(DirectoryStore(str(tmp_path / "made")), deletes=False).delete(it.segment)
    assert len(list(storage.listed())) == len(listed)
    storage.delete(it.segment)
    storage.delete(it.segment)
    assert not list(storage.listed())
    with pytest.raises(ObjectMissing):
        storage.read(it.segment, 0, 1)
    with pytest.raises(ObjectMissing):
        storage.index(it.segment, IndexType.OFFSET)


def test_a_damaged_batch_is_noticed(storage: LocalTieredStorage, tmp_path: Path) -> None:
    it = tiered(log_of(9000))
    storage.copy(it.segment, it.files, NO_LIMITS)
    (file,) = tmp_path.glob("made/kafka-tiered-storage/*/*.log")
    held = bytearray(file.read_bytes())
    held[4321] ^= 1
    file.write_bytes(held)
    with pytest.raises(CorruptObject, match="the batch of offset"):
        storage.read(it.segment, 0, 9000)


def test_a_copy_stops_and_fails_with_its_log(storage: LocalTieredStorage) -> None:
    it = tiered(log_of(9000))
    with pytest.raises(CopyStopped):
        storage.copy(it.segment, it.files, CopyLimits(lambda: True, lambda _size: None))
    cut = it.files._replace(log=it.files.log.part(5, len(it.log)))
    with pytest.raises(StoreFailed, match="the log file has"):
        storage.copy(it.segment, cut, NO_LIMITS)
