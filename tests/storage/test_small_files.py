"""Kafka's small files: the bytes it writes, and every malformed one named by its path."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage import (
    checkpoint,
    meta_properties,
    partition_metadata,
    producer_snapshot,
    quorum_state,
    session,
    snapshot,
)
from kpystorage.errors import CorruptFile
from kpystorage.memory_disk import MemoryDisk
from kpystorage.meta_properties import MetaProperties
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.quorum_state import StoredQuorumState
from kpystorage.real_disk import RealDisk
from kpystorage.snapshot import SnapshotId
from kpywire import uuid

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=30)

# As Apache Kafka 4.3.1 wrote them.
META_PROPERTIES = (
    b"#\n#Fri Nov 20 13:43:16 UTC 2026\nnode.id=1\ndirectory.id=ryWDwhTgRRuAOkd5XzLOOQ\nversion=1\n"
    b"cluster.id=a3B5YnJva2VyLW9yYWNsZQ\n"
)
QUORUM_STATE = (
    b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
OLD_QUORUM_STATE = (
    b'{"clusterId":"","leaderId":3,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
)
PARTITION_METADATA = b"version: 0\ntopic_id: mt5nMVPhTq6FiW2JXT3nPg"
CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":13}'
PRODUCER_SNAPSHOT = bytes.fromhex("00017cd96bfd00000000")


def test_meta_properties_are_read_and_written_as_kafka_does() -> None:
    properties = meta_properties.parse(META_PROPERTIES, "x")
    assert properties == MetaProperties("a3B5YnJva2VyLW9yYWNsZQ", 1, uuid.from_string("ryWDwhTgRRuAOkd5XzLOOQ"))
    assert meta_properties.render(properties) == b"#\n" + META_PROPERTIES.split(b"\n", 2)[2]
    old = meta_properties.parse(b"version=0\nbroker.id=3\n", "x")
    assert old == MetaProperties(None, 3, None, 0)
    assert meta_properties.parse(meta_properties.render(old), "x") == old
    odd = MetaProperties("a=b:c#d!e f\\g", 2, None)
    assert b"cluster.id=a\\=b\\:c" in meta_properties.render(odd)


@pytest.mark.parametrize(
    "data",
    [b"", b"version=2\n", b"version=1\nnode.id=1\n", b"version=1\nnode.id=x\ncluster.id=y\n", b"words\n",
     b"version=1\nnode.id=1\ncluster.id=y\ndirectory.id=short\n"],
)  # fmt: skip
def test_malformed_meta_properties_are_named(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"^here/meta\.properties: "):
        meta_properties.parse(data, "here/meta.properties")


def test_quorum_states_are_kafkas() -> None:
    state = StoredQuorumState(1, 1)
    assert quorum_state.render(state) == QUORUM_STATE
    assert quorum_state.parse(QUORUM_STATE, "x") == state
    old = StoredQuorumState(3, 7, -1, uuid.ZERO_UUID, (1, 3), 0)
    assert quorum_state.render(old) == OLD_QUORUM_STATE
    assert quorum_state.parse(OLD_QUORUM_STATE, "x") == old
    voted = StoredQuorumState(-1, 9, 2, bytes(range(16)))
    assert quorum_state.parse(quorum_state.render(voted), "x") == voted


def test_a_quorum_state_is_there_or_not(tmp_path: Path) -> None:
    path = str(tmp_path / "quorum-state")
    assert quorum_state.read(RealDisk(), path) is None
    quorum_state.write(RealDisk(), path, StoredQuorumState(1, 1))
    assert quorum_state.read(RealDisk(), path) == StoredQuorumState(1, 1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["quorum-state"]


def test_partition_metadata_and_the_clean_shutdown_file_are_kafkas() -> None:
    topic_id = partition_metadata.parse(PARTITION_METADATA, "x")
    assert topic_id is not None
    assert partition_metadata.render(topic_id) == PARTITION_METADATA
    assert partition_metadata.parse(b"", "x") is None
    assert partition_metadata.parse(bytes(43), "x") is None
    for end in range(len(PARTITION_METADATA)):
        assert partition_metadata.parse(PARTITION_METADATA[:end] + bytes(3), "x") is None
    assert session.render_clean_shutdown(13) == CLEAN_SHUTDOWN
    disk = MemoryDisk()
    assert session.read_broker_epoch(disk, "") is None
    for content, epoch in ((CLEAN_SHUTDOWN, 13), (b"", -1), (b"[]", -1), (b'{"brokerEpoch":"x"}', -1)):
        disk.write("/.kafka_cleanshutdown", content, synchronize=False)
        assert session.read_broker_epoch(disk, "") == epoch


def test_an_empty_producer_snapshot_is_kafkas() -> None:
    assert producer_snapshot.parse(producer_snapshot.render([]), "x") == []
    assert len(producer_snapshot.render([])) == len(PRODUCER_SNAPSHOT)


ENTRIES = st.lists(
    st.builds(
        SnapshotEntry,
        INT64,
        st.integers(-1, 32767),
        st.integers(-1, (1 << 31) - 1),
        INT64,
        st.integers(0, 1 << 30),
        INT64,
        st.integers(-1, 1 << 30),
        INT64,
    ),
    max_size=5,
)


@given(ENTRIES, st.data())
def test_a_producer_snapshot_is_whole_or_none(entries: list[SnapshotEntry], data: st.DataObject) -> None:
    rendered = producer_snapshot.render(entries)
    assert producer_snapshot.parse(rendered, "x") == sorted(entries)
    broken = bytearray(rendered)
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptFile):
        producer_snapshot.parse(bytes(broken), "x")
    with pytest.raises(CorruptFile):
        producer_snapshot.parse(rendered[: data.draw(st.integers(0, len(rendered) - 1))], "x")


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 1 << 31)), INT64, max_size=8))
def test_offset_checkpoints_come_back(offsets: dict[tuple[str, int], int]) -> None:
    assert checkpoint.parse_offsets(checkpoint.render_offsets(offsets), "x") == offsets


@given(st.lists(st.tuples(st.integers(0, 1 << 31), st.integers(0, (1 << 63) - 1)), max_size=8))
def test_epoch_checkpoints_come_back(entries: list[tuple[int, int]]) -> None:
    assert checkpoint.parse_epochs(checkpoint.render_epochs(entries), "x") == entries


def test_checkpoints_are_kafkas() -> None:
    assert checkpoint.render_offsets({("t", 1): 0, ("t", 0): 204}) == b"0\n2\nt 1 0\nt 0 204\n"
    assert checkpoint.render_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert checkpoint.parse_offsets(b"", "x") == {}


@pytest.mark.parametrize(
    "data",
    [b"1\n0\n", b"0\n", b"0\n1\n", b"0\n1\nt 0 5", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\n1\nt 0 5 6\n",
     b"0\n1\nt x 5\n", b"0\n1\nt 0 99999999999999999999\n", b"0\n-1\n", b"\xff\xfe", b"0\n1\nt 0 \xd9\xa3\n"],
)  # fmt: skip
def test_malformed_checkpoints_are_named(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"^here/checkpoint: "):
        checkpoint.parse_offsets(data, "here/checkpoint")


@given(st.binary(max_size=120))
def test_no_bytes_whatever_do_more_than_be_refused(data: bytes) -> None:
    for parse in (
        checkpoint.parse_offsets,
        checkpoint.parse_epochs,
        meta_properties.parse,
        partition_metadata.parse,
        producer_snapshot.parse,
        quorum_state.parse,
    ):
        with suppress(CorruptFile):
            parse(data, "x")


@given(
    st.dictionaries(
        st.sampled_from(["leaderId", "votedDirectoryId", "currentVoters", "data_version"]),
        st.one_of(st.none(), st.integers(0, 1), st.text(max_size=3), st.lists(st.integers(), max_size=1)),
    )
)
def test_no_json_whatever_does_more_than_be_refused(content: dict[str, object]) -> None:
    whole = {"leaderEpoch": 0, "votedId": 0, "leaderId": 0, **content}
    with suppress(CorruptFile):
        quorum_state.parse(json.dumps(whole).encode(), "x")


def test_metadata_snapshots_have_kafkas_names_and_are_whole_or_not_there(tmp_path: Path) -> None:
    disk, directory = RealDisk(), str(tmp_path)
    assert snapshot.snapshot_name(SnapshotId(42, 3)) == "00000000000000000042-0000000003.checkpoint"
    snapshot.write(disk, directory, SnapshotId(42, 3), [b"ab", b"", b"cd"])
    snapshot.write(disk, directory, SnapshotId(7, 1), [])
    assert snapshot.read(disk, directory, SnapshotId(42, 3)) == b"abcd"
    half = snapshot.RawSnapshotWriter(disk, f"{directory}/{snapshot.snapshot_name(SnapshotId(50, 3))}")
    half.append(b"ab")
    (tmp_path / "00000000000000000042-0000000003.checkpoint123.part").touch()
    (tmp_path / "00000000000000000001-0000000001.checkpoint.deleted").touch()
    assert snapshot.list_snapshots(disk, directory) == [SnapshotId(7, 1), SnapshotId(42, 3)]
    snapshot.remove_unfinished(disk, directory)
    assert len(list(tmp_path.iterdir())) == 2
    gone = snapshot.RawSnapshotWriter(disk, f"{directory}/x")
    gone.abandon()
    snapshot.remove(disk, directory, SnapshotId(7, 1))
    assert snapshot.list_snapshots(disk, directory) == [SnapshotId(42, 3)]
