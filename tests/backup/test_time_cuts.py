"""Cuts between two runs, by timestamps."""

from manifests import TOPIC_ID, manifest, partition, piece

from kpybroker.machines.backup.manifest import BegunTransaction, ReadMarker, RunManifest, TransactionEnd
from kpybroker.machines.backup.time_cut import Extension, TimedStretch, extensions, manifest_at
from kpywire.control_record import marker_batch
from kpywire.record import Record, build_batch

ONE, TWO, THREE = piece(0, 10), piece(10, 20), piece(20, 30)
OPEN = BegunTransaction(7, 3, 8)


def batch(offset: int, timestamp: int, producer_id: int = -1) -> bytes:
    return build_batch(
        [Record(timestamp=timestamp, value=b"v")],
        base_offset=offset,
        partition_leader_epoch=2,
        producer_id=producer_id,
        producer_epoch=3 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def marker(offset: int, timestamp: int) -> bytes:
    made = marker_batch(offset, 2, timestamp, commit=True, coordinator_epoch=0, producer_id=7, producer_epoch=4)
    return bytes(made)


def cut_at(time_ms: int, earlier: RunManifest | None, later: RunManifest, *logs: bytes) -> RunManifest:
    """The manifest of a cut, where partitions have these batches behind the earlier run."""
    read: list[tuple[Extension, TimedStretch]] = []
    for extension, log in zip(extensions(earlier, later), logs, strict=True):
        timed = extension.stretch()
        timed.take(log, time_ms)
        read.append((extension, timed))
    return manifest_at(time_ms, earlier, later, read)


def test_partitions_go_on_where_the_earlier_run_ended() -> None:
    earlier, later = manifest(partition(ONE, TWO)), manifest(partition(TWO, THREE))
    (found,) = extensions(earlier, later)
    assert (found.earlier, found.following) == (earlier.topics[0].partitions[0], (THREE,))


def test_a_partition_whose_records_were_deleted_or_replaced_between_the_runs_ends_with_the_earlier_one() -> None:
    (found,) = extensions(manifest(partition(ONE)), manifest(partition(THREE)))
    assert found.following == ()
    made = cut_at(500, manifest(partition(ONE)), manifest(partition(THREE)), b"")
    assert made.topics[0].partitions == (partition(ONE),)


def test_topics_that_were_deleted_or_created_again_are_those_of_the_earlier_run() -> None:
    earlier = manifest(partition(ONE))
    (topic,) = earlier.topics
    for topics in ((), (topic._replace(topic_id="other"),)):
        (found,) = extensions(earlier, earlier._replace(topics=topics))
        assert (found.topic.topic_id, found.earlier, found.following) == (TOPIC_ID, topic.partitions[0], ())


def test_a_partition_ends_before_its_first_later_batch() -> None:
    log = batch(10, 100) + batch(11, 200) + batch(12, 301) + batch(13, 300)
    made = cut_at(300, manifest(partition(ONE)), manifest(partition(ONE, TWO, THREE)), log)
    assert made.topics[0].partitions == (partition(ONE, TWO, end_offset=12, leader_epoch=2),)
    assert made.cut_ms == 300


def test_nothing_behind_a_later_batch_counts() -> None:
    (extension,) = extensions(manifest(partition(ONE)), manifest(partition(ONE, TWO, THREE)))
    timed = extension.stretch()
    for log in (batch(10, 100), batch(11, 301), batch(12, 100)):
        timed.take(log, 300)
    assert (timed.is_over, timed.stretch.next_offset) == (True, 11)


def test_topics_beside_one_that_was_created_again_go_on() -> None:
    earlier, later = manifest(partition(ONE)), manifest(partition(ONE, TWO))
    (again,) = earlier.topics
    other = later.topics[0]._replace(name="payments", topic_id="payments-id")
    found = extensions(earlier, later._replace(topics=(again._replace(topic_id="other"), other)))
    assert [(each.topic.name, each.following) for each in found] == [("orders", ()), ("payments", (ONE, TWO))]


def test_a_topic_that_is_later_than_the_time_is_left_out() -> None:
    assert cut_at(99, None, manifest(partition(ONE)), batch(0, 100)).topics == ()
    (topic,) = cut_at(100, None, manifest(partition(ONE)), batch(0, 100)).topics
    assert topic.partitions[0].end_offset == 1


def test_a_transaction_that_the_time_splits_is_aborted_as_a_whole() -> None:
    earlier = manifest(partition(ONE), partition(ONE))
    later = manifest(partition(ONE, TWO), partition(ONE, TWO))
    logs = [batch(10, 100, 7) + marker(11, time_ms) for time_ms in (300, 301)]
    first, second = cut_at(300, earlier, later, *logs).topics[0].partitions
    assert (first.ends, first.overturned) == ((), (ReadMarker(11, 7, 4, 3, is_commit=True),))
    assert (second.ends, second.overturned) == ((TransactionEnd(7, 3, is_commit=False),), ())
    for part in cut_at(301, earlier, later, *logs).topics[0].partitions:
        assert (part.end_offset, part.ends, part.overturned) == (12, (), ())


def test_a_transaction_ends_as_the_earlier_run_decided_until_its_markers_come() -> None:
    held = piece(0, 10, open=(OPEN,))
    commits, overturned = TransactionEnd(7, 3, is_commit=True), ReadMarker(9, 7, 4, 3, is_commit=True)
    later = manifest(partition(held, TWO))
    earlier = manifest(partition(held, ends=(commits,)))
    assert cut_at(300, earlier, later, batch(10, 100)).topics[0].partitions[0].ends == (commits,)
    assert cut_at(300, earlier, later, marker(10, 100)).topics[0].partitions[0].ends == ()
    earlier = manifest(partition(held), partition(ONE, overturned=(overturned,)))
    later = manifest(partition(held, TWO), partition(ONE))
    _, second = cut_at(300, earlier, later, batch(10, 100), b"").topics[0].partitions
    assert second.overturned == (overturned,)
    _, second = cut_at(300, earlier, later, marker(10, 100), b"").topics[0].partitions
    assert second.overturned == ()
