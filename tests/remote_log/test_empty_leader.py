"""The offset at which the log of a leader without records begins, by what the store has."""

import pytest
from remote_log_histories import TOPIC_ID, segment, update
from test_remote_segments import cache_of

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.empty_leader import EmptyLeader, LeaderStep, StayEmpty
from kpybroker.machines.remote_log.follower import FetchIndexes, StartAt, TryLater
from kpybroker.machines.remote_log.segments import DELETED, DELETING, STARTED

OLD = segment(1, 0, 49, [(0, 0)])
NEW = segment(2, 50, 99, [(0, 50), (3, 80)])
EPOCHS = ((0, 0), (3, 80))


def begun(of: EmptyLeader, segments: RemoteSegments, *epochs: tuple[int, int]) -> LeaderStep:
    """The step after the indexes of the segment that the leader asks for."""
    step = of.found(segments)
    assert isinstance(step, FetchIndexes)
    return of.fetched(epochs, b"snapshot")


def test_the_log_begins_behind_the_last_segment_of_the_newest_epoch() -> None:
    of = EmptyLeader(4)
    assert of.found(cache_of(OLD, NEW)) == FetchIndexes(cache_of(NEW).find(3, 99))  # type: ignore[arg-type]
    assert of.fetched(EPOCHS, b"snapshot") == StartAt(100, 0, EPOCHS, b"snapshot")


def test_a_partition_that_was_never_copied_stays_as_it_is() -> None:
    assert EmptyLeader(4).found(RemoteSegments(TOPIC_ID, "t", 0)) == StayEmpty()
    copied_in_part = RemoteSegments(TOPIC_ID, "t", 0)
    copied_in_part.apply(segment(1, 0, 49, [(0, 0)], state=STARTED))
    assert EmptyLeader(4).found(copied_in_part) == StayEmpty()


def test_a_log_that_ends_behind_the_store_stays_as_it_is() -> None:
    assert EmptyLeader(4, 0, 100).found(cache_of(OLD, NEW)) == StayEmpty()
    assert isinstance(EmptyLeader(4, 0, 99).found(cache_of(OLD, NEW)), FetchIndexes)


def test_what_leaders_of_earlier_epochs_copied_beyond_does_not_count() -> None:
    lost = segment(3, 50, 199, [(0, 50)])
    assert begun(EmptyLeader(4), cache_of(OLD, lost, NEW), *EPOCHS) == StartAt(100, 0, EPOCHS, b"snapshot")


def test_offsets_go_on_behind_segments_that_are_deleted() -> None:
    segments = cache_of(OLD, NEW)
    for each in (OLD, NEW):
        segments.apply(update(each, DELETING))
    assert EmptyLeader(4).found(segments) == StartAt(100, 100, (), None)
    for each in (OLD, NEW):
        segments.apply(update(each, DELETED))
    assert EmptyLeader(4).found(segments) == StartAt(100, 100, (), None)


def test_readers_begin_where_the_log_began_at_the_copy_and_behind_gaps() -> None:
    moved = ((0, 20), (3, 80))
    assert begun(EmptyLeader(4), cache_of(OLD, NEW), *moved) == StartAt(100, 20, moved, b"snapshot")
    assert begun(EmptyLeader(4, 30, 30), cache_of(OLD, NEW), *moved) == StartAt(100, 30, moved, b"snapshot")
    gap = segment(1, 0, 39, [(0, 0)])
    assert begun(EmptyLeader(4), cache_of(gap, NEW), *EPOCHS) == StartAt(100, 50, EPOCHS, b"snapshot")


def test_a_store_that_is_ahead_of_the_partition_is_not_believed() -> None:
    step = EmptyLeader(2).found(cache_of(OLD, NEW))
    assert isinstance(step, TryLater)
    assert step.reason == (
        "the store has records of leader epoch 3, and the partition is only in epoch 2: does another cluster write"
        " there under the same topic id?"
    )


def test_a_segment_that_lay_before_the_log_gives_its_end_alone() -> None:
    assert begun(EmptyLeader(4), cache_of(OLD, NEW)) == StartAt(100, 100, (), b"snapshot")


@pytest.mark.parametrize("epochs", [((0, 0),), ((0, 0), (3, 100)), ((3, 80), (0, 90))])
def test_epochs_that_do_not_fit_the_segment_are_refused(epochs: tuple[tuple[int, int], ...]) -> None:
    assert isinstance(begun(EmptyLeader(4), cache_of(OLD, NEW), *epochs), TryLater)
