"""A replica and its leader whose log begins in the middle: what it is answered, and how an empty one begins."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import started
from kpystorage.remote.local_tiered_storage import LocalFile
from kpywire import error_codes
from kpywire.messages.fetch import FetchRequest, PartitionData, ReplicaState
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.clusters import Cluster
from support.raw_client import RawClient, connect
from support.raw_requests import creation, metadata_of, offset_at, topic_named
from support.special_timestamps import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from support.waiting import becomes, eventually
from tiered.filling import ONLY_REMOTE, TIERED, fill
from tiered.nodes import store_of, tiered_cluster
from tiered.reading import answers, batches, fetch, headers_in, leader, offset, to_leader
from tiered.store import segments

TOPIC = "replicated"
REPLICAS = (1, 2)
EPOCHS = range(4)
ENDS = {0: 6, 1: 12, 2: 18, 3: 24}
LOCAL_START = 22


class Pair(NamedTuple):
    """The leader of the topic, and its follower, which has stopped."""

    cluster: Cluster
    leader: int
    follower: int


def in_sync(cluster: Cluster) -> int:
    with to_leader(cluster, TOPIC) as raw:
        return len(metadata_of(raw, TOPIC).partitions[0].isr_nodes)


def write_an_epoch(cluster: Cluster, epoch: int) -> None:
    """Three segments, of which the active one stays on the disk."""
    with to_leader(cluster, TOPIC) as raw:
        fill(raw, TOPIC, range(3 * epoch, 3 * epoch + 3))
        becomes(lambda: offset(raw, TOPIC, EARLIEST_LOCAL), ENDS[epoch] - 2)


@pytest.fixture(scope="module")
def pair(tiered_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A leader of the fourth epoch, after a restart of each one before it."""
    with tiered_cluster(tiered_target, tmp_path_factory.mktemp("pair"), 3) as cluster:
        started.extend(cluster.processes)
        configs = {**TIERED, **ONLY_REMOTE, "min.insync.replicas": "1"}
        topic = topic_named(TOPIC, -1, -1, [(0, REPLICAS)], configs)
        with connect(cluster.nodes[3].bootstrap_servers) as raw:
            assert raw.call(creation(topic), 7).topics[0].error_code == error_codes.NONE
        for epoch in EPOCHS:
            if epoch:
                cluster.nodes[leader(cluster, TOPIC)].restart()
                eventually(lambda: in_sync(cluster) == len(REPLICAS), "both replicas in sync", despite=(OSError,))
            write_an_epoch(cluster, epoch)
        leads = leader(cluster, TOPIC)
        follows = sum(REPLICAS) - leads
        cluster.nodes[follows].stop()
        becomes(lambda: in_sync(cluster), 1)
        yield Pair(cluster, leads, follows)
        for each in cluster.processes:
            started.remove(each)


@pytest.fixture
def raw(pair: Pair) -> Iterator[RawClient]:
    """A connection to the leader."""
    with connect(pair.cluster.nodes[pair.leader].bootstrap_servers) as client:
        yield client


def as_replica(raw: RawClient, pair: Pair, at: int, version: int) -> PartitionData:
    """The answer to a Fetch by the follower."""
    request: FetchRequest = fetch(TOPIC, {0: at}, max_wait_ms=0)
    request.topics[0].topic_id = metadata_of(raw, TOPIC).topic_id
    if version < 15:
        request.replica_id = pair.follower
    else:
        request.replica_state = ReplicaState(replica_id=pair.follower, replica_epoch=-1)
    return answers(raw.call(request, version))[0]


@pytest.mark.parametrize("version", [12, 13, 14, 15, 18])
def test_a_follower_below_the_disk_is_sent_to_the_store(raw: RawClient, pair: Pair, version: int) -> None:
    for at in (0, 5, LOCAL_START - 1):
        data = as_replica(raw, pair, at, version)
        assert data.error_code == error_codes.OFFSET_MOVED_TO_TIERED_STORAGE
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (24, -1, 0)
        assert data.diverging_epoch.epoch == -1
        assert not data.records
    for at, batch in ((LOCAL_START, [LOCAL_START]), (LOCAL_START + 1, [LOCAL_START]), (24, [])):
        data = as_replica(raw, pair, at, version)
        assert (data.error_code, data.log_start_offset) == (error_codes.NONE, 0)
        assert [header.base_offset for header in headers_in(data)] == batch


@pytest.mark.parametrize("of_follower", [False, True], ids=["consumer", "follower"])
def test_epochs_end_on_either_side_of_the_border(raw: RawClient, pair: Pair, of_follower: bool) -> None:
    def end_of(epoch: int) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=-1)
        topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[wanted])]
        request = OffsetForLeaderEpochRequest(replica_id=pair.follower if of_follower else -1, topics=topics)
        (found,) = raw.call(request, 4).topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    unknown = (error_codes.NONE, -1, -1)
    expected = {epoch: (error_codes.NONE, epoch, end) for epoch, end in ENDS.items()}
    assert {epoch: end_of(epoch) for epoch in range(-1, 6)} == {-1: unknown, **expected, 4: unknown, 5: unknown}


def test_a_follower_asks_for_offsets_as_a_consumer_does(raw: RawClient, pair: Pair) -> None:
    expected = {
        LATEST: (24, 3),
        EARLIEST: (0, 0),
        MAX_TIMESTAMP: (LOCAL_START, 3),
        EARLIEST_LOCAL: (LOCAL_START, 3),
        LATEST_TIERED: (LOCAL_START - 1, 3),
        EARLIEST_PENDING_UPLOAD: (LOCAL_START, 3),
    }
    for replica_id in (-1, pair.follower):
        found = {at: offset_at(raw, TOPIC, at, replica_id=replica_id, timeout_ms=10_000) for at in expected}
        assert {at: (each[2], each[3]) for at, each in found.items()} == expected


def test_records_keep_the_epochs_in_which_they_were_written(raw: RawClient) -> None:
    epochs = {each.base_offset: each.leader_epoch for each in batches(raw, TOPIC)}
    assert epochs == {at: at // 6 for at in range(0, 24, 2)}


def test_a_copied_segment_has_the_epochs_up_to_its_end(pair: Pair) -> None:
    store = store_of(pair.cluster.nodes[1].directory.parent)
    found = {}
    for segment in segments(store, TOPIC):
        (file,) = store.rglob(f"{segment.start_offset:020d}-*{LocalFile.LEADER_EPOCH_CHECKPOINT.value}")
        found[segment.start_offset] = file.read_text().splitlines()[2:]
    starts = [f"{epoch} {6 * epoch}" for epoch in EPOCHS]
    assert found == {at: starts[: at // 6 + 1] for at in range(0, LOCAL_START, 2)}


def files_of(directory: Path) -> set[str]:
    """The names of a partition's files, without those that are about to be removed."""
    return {each.name for each in directory.iterdir() if each.suffix != ".deleted"}


def test_a_follower_without_a_log_begins_where_its_leader_does_on_the_disk(pair: Pair) -> None:
    """Its files are those of its leader: the epochs from the log's start on, and the producers at its own start."""
    theirs, ours = (pair.cluster.nodes[each].data / f"{TOPIC}-0" for each in (pair.leader, pair.follower))
    shutil.rmtree(ours)
    pair.cluster.nodes[pair.follower].start()
    eventually(lambda: in_sync(pair.cluster) == len(REPLICAS), "the follower in sync")
    becomes(lambda: files_of(ours), files_of(theirs))
    name = f"{LOCAL_START:020d}"
    for suffix in (".log", ".snapshot"):
        assert (ours / f"{name}{suffix}").read_bytes() == (theirs / f"{name}{suffix}").read_bytes()
    becomes(lambda: (ours / "leader-epoch-checkpoint").read_text(), (theirs / "leader-epoch-checkpoint").read_text())
    pair.cluster.nodes[pair.leader].stop()
    becomes(lambda: leader(pair.cluster, TOPIC), pair.follower)
    with to_leader(pair.cluster, TOPIC) as raw:
        assert offset(raw, TOPIC, EARLIEST) == 0
        becomes(lambda: offset(raw, TOPIC, EARLIEST_LOCAL), LOCAL_START)
        assert [each.base_offset for each in batches(raw, TOPIC)] == list(range(0, 24, 2))
