"""The directory and the store of one program go on under another one, and come back; no object is written again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kpystorage.remote.local_tiered_storage import parse_path
from oracle import java
from support.clusters import Cluster
from support.raw_client import RawClient, connect
from support.waiting import becomes, eventually
from tiered.filling import ONLY_REMOTE, alter, create_tiered, delete_records, fill, fill_transactions, time_of
from tiered.nodes import BESIDE, SLOW, hand_over, store_of, tiered_cluster
from tiered.reading import EARLIEST, LATEST_TIERED, Reading, offset, read, to_leader
from tiered.store import StoredFile, of_topic, start_offsets, stored, torn

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1200)]

TOPIC = "moved"
PLAIN, IN_TRANSACTIONS = PARTITIONS = range(2)
TIMES_MS = tuple(time_of(number) for number in (0, 3, 5))
DUMPER = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Mismatches", "not found", "invalid bytes", "CORRUPT", "isvalid: false", "Exception")
SETTLE_S = 120.0


@pytest.fixture
def turns(tiered_target: str) -> Sequence[str]:
    """The programs that have the directory one after the other: the other one is the first and the last."""
    return BESIDE[tiered_target], tiered_target, BESIDE[tiered_target]


def data(cluster: Cluster) -> Path:
    return cluster.nodes[1].data


def local_starts(cluster: Cluster, partition: int) -> list[int]:
    """Where the segments on the disk start."""
    return sorted(int(each.stem) for each in (data(cluster) / f"{TOPIC}-{partition}").glob("*.log"))


def settled(cluster: Cluster) -> None:
    """Wait until the disk has the active segments alone, and the store has all before them."""
    with connect(cluster.bootstrap_servers) as raw:
        for partition in PARTITIONS:
            eventually(
                lambda partition=partition: (
                    local_starts(cluster, partition) == [offset(raw, TOPIC, LATEST_TIERED, partition) + 1]
                ),
                lambda partition=partition: f"{TOPIC}-{partition} to be tiered: {local_starts(cluster, partition)}",
                SETTLE_S,
            )


def readings(cluster: Cluster) -> list[Reading]:
    return [read(cluster, TOPIC, partition, TIMES_MS) for partition in PARTITIONS]


def objects(cluster: Cluster) -> dict[str, StoredFile]:
    """The files of the topic in the store."""
    return of_topic(stored(store_of(data(cluster).parents[1])), TOPIC)


def write_more(raw: RawClient, turn: int) -> None:
    """Six segments and more for each partition."""
    fill(raw, TOPIC, range(6 * turn, 6 * turn + 6))
    fill_transactions(raw, TOPIC, range(10 * turn, 10 * turn + 4), IN_TRANSACTIONS)


def complaints(cluster: Cluster) -> list[str]:
    """The lines of kafka-dump-log that complain, about all logs and indexes of the topic on the disk and in the store."""
    local = [each for partition in PARTITIONS for each in (data(cluster) / f"{TOPIC}-{partition}").iterdir()]
    copied = [data(cluster).parents[1] / "store" / each for each in objects(cluster)]
    found = []
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        files = ",".join(str(each) for each in [*local, *copied] if each.suffix == suffix and each.stat().st_size)
        if files:
            done = java(DUMPER, "--deep-iteration", "--files", files)
            lines = (done.stdout + done.stderr).splitlines()
            found += [line for line in lines if any(each in line for each in COMPLAINTS)]
            assert done.returncode == 0, lines[-20:]
    return found


def gone_on(before: Reading, after: Reading) -> bool:
    """Whether a partition is as before, but for what was written since."""
    count, kept = len(before.batches), len(before.committed)
    return (
        after.start == before.start
        and after.batches[:count] == before.batches
        and after.committed[:kept] == before.committed
        and after.by_time == before.by_time
    )


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_all_records_are_read_before_and_after_and_copies_go_on(
    turns: Sequence[str], ending: str, tmp_path: Path
) -> None:
    with tiered_cluster(turns[0], tmp_path) as cluster:
        with connect(cluster.bootstrap_servers) as raw:
            create_tiered(raw, TOPIC, len(PARTITIONS), **ONLY_REMOTE)
        for turn, program in enumerate(turns):
            if turn:
                hand_over(cluster, 1, program)
                cluster.start()
                becomes(
                    lambda: [each.latest_tiered for each in readings(cluster)], [each.latest_tiered for each in seen]
                )
                assert readings(cluster) == seen
                assert objects(cluster) == files
            before = readings(cluster) if turn else []
            with connect(cluster.bootstrap_servers) as raw:
                write_more(raw, turn)
            settled(cluster)
            seen, files = readings(cluster), objects(cluster)
            assert all(map(gone_on, before, seen))
            for partition in PARTITIONS:
                assert seen[partition].latest_tiered > (before[partition].latest_tiered if before else 0)
                assert start_offsets(store_of(tmp_path), TOPIC, partition)[0] == 0
            if ending == "killed" and turn < len(turns) - 1:
                cluster.nodes[1].kill()
            else:
                cluster.stop()
            assert complaints(cluster) == []


def expire_by_deletion(raw: RawClient, cluster: Cluster) -> int:
    """DeleteRecords below the third segment; the offset where the log starts."""
    start = start_offsets(store_of(data(cluster).parents[1]), TOPIC)[2]
    assert delete_records(raw, TOPIC, start) == (0, start)
    return start


def expire_by_size(raw: RawClient, cluster: Cluster) -> int:
    """Retention that the two oldest segments exceed; the offset where the log starts."""
    starts = start_offsets(store_of(data(cluster).parents[1]), TOPIC)
    sizes = {
        name.segment.start_offset: file.size
        for path, file in objects(cluster).items()
        if path.endswith(".log") and (name := parse_path(path)) and name.segment.partition == PLAIN
    }
    local = sum(each.stat().st_size for each in (data(cluster) / f"{TOPIC}-{PLAIN}").glob("*.log"))
    # Kafka deletes a segment where at least its size is too much.
    alter(raw, TOPIC, retention_bytes=str(sum(sizes[each] for each in starts[2:]) + local))
    return starts[2]


def test_expiry_goes_on_and_deletes_objects_of_the_other_program(turns: Sequence[str], tmp_path: Path) -> None:
    with tiered_cluster(turns[0], tmp_path) as cluster:
        with connect(cluster.bootstrap_servers) as raw:
            create_tiered(raw, TOPIC, len(PARTITIONS), **ONLY_REMOTE)
            fill(raw, TOPIC, range(12))
            fill_transactions(raw, TOPIC, range(4), IN_TRANSACTIONS)
        settled(cluster)
        for turn, program in enumerate(turns):
            if turn:
                hand_over(cluster, 1, program)
                cluster.start()
            becomes(lambda: read(cluster, TOPIC, PLAIN).latest_tiered, 21)
            before, files = read(cluster, TOPIC, PLAIN), objects(cluster)
            with connect(cluster.bootstrap_servers) as raw:
                start = (expire_by_size if turn == 1 else expire_by_deletion)(raw, cluster)
                becomes(lambda: offset(raw, TOPIC, EARLIEST), start, SETTLE_S)
                becomes(lambda: start_offsets(store_of(tmp_path), TOPIC)[0], start, SETTLE_S)
                if turn == 1:
                    alter(raw, TOPIC, retention_bytes="-1")
            after, left = read(cluster, TOPIC, PLAIN), objects(cluster)
            assert after.batches == [each for each in before.batches if each.base_offset >= start]
            assert left == {path: file for path, file in files.items() if path in left}
            cluster.stop()
        assert complaints(cluster) == []


def test_a_copy_that_was_killed_is_made_again_by_the_other_program(turns: Sequence[str], tmp_path: Path) -> None:
    """What a dead copy left behind is not read by either program."""
    with tiered_cluster(turns[0], tmp_path, properties=SLOW) as cluster:
        with connect(cluster.bootstrap_servers) as raw:
            create_tiered(raw, TOPIC, len(PARTITIONS), **ONLY_REMOTE)
        for turn, program in enumerate(turns):
            if turn:
                hand_over(cluster, 1, program)
                cluster.start()
                settled(cluster)
                assert all(map(gone_on, before, readings(cluster)))
            with connect(cluster.bootstrap_servers) as raw:
                fill(raw, TOPIC, range(6 * turn, 6 * turn + 6), size=100_000)
                before = readings(cluster)
            eventually(lambda: torn(store_of(tmp_path), TOPIC), "a copy that has begun", SETTLE_S, every_s=0.005)
            cluster.nodes[1].kill()
        cluster.start()
        settled(cluster)
        assert all(map(gone_on, before, readings(cluster)))
        cluster.stop()
        assert complaints(cluster) == []
