"""The COMMIT markers that a mirror's leader does not show yet: listed once, released from below, cut from above."""

import pytest

from kpybroker.machines.mirror.cuts import HeldMarker
from kpybroker.machines.mirror.held_markers import HeldMarkers, commits_in
from kpywire.batch import parse_header
from kpywire.control_record import marker_batch
from kpywire.record import Record, build_batch


def records(offset: int, producer_id: int = -1, count: int = 1) -> bytes:
    is_transactional = producer_id >= 0
    return bytes(
        build_batch(
            [Record(timestamp=0, value=b"v")] * count,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=2 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
    )


def marker(offset: int, producer_id: int = 7, *, commit: bool = True) -> bytes:
    return bytes(
        marker_batch(offset, 0, 0, commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=2)
    )


def offsets(held: HeldMarkers) -> list[int]:
    return [each.offset for each in held.between(0, 1_000)]


def test_only_commit_markers_are_held() -> None:
    data = records(0) + records(1, 7) + marker(2) + records(3, 7) + marker(4, commit=False)
    held = HeldMarkers(0)
    held.read(data, 5)
    assert list(held.between(0, 5)) == [HeldMarker(2, 7, 2)]
    assert (held.limit, held.listed_to) == (2, 5)
    for batch, is_commit in (
        (records(0), False),
        (records(1, 7), False),
        (marker(2), True),
        (marker(2, commit=False), False),
    ):
        assert commits_in(batch, parse_header(batch), 0) is is_commit


def test_a_marker_behind_no_record_of_its_producer_is_known_as_empty() -> None:
    held = HeldMarkers(0)
    held.read(records(0, 7) + marker(1) + marker(2) + marker(3, 8) + records(4, 7) + marker(5), 6)
    assert [each.is_empty for each in held.between(0, 6)] == [False, True, True, False]


def test_batches_are_read_once_and_up_to_the_end() -> None:
    data = records(0, 7) + marker(1) + records(2, 7, count=2) + marker(4)
    held = HeldMarkers(0)
    for end, found, listed_to in ((1, [], 1), (2, [1], 2), (3, [1], 2), (4, [1], 4), (5, [1, 4], 5), (9, [1, 4], 5)):
        held.read(data, end)
        assert (offsets(held), held.listed_to) == (found, listed_to)


def test_a_marker_below_the_first_offset_was_shown() -> None:
    held = HeldMarkers(2)
    assert (held.released_to, held.listed_to, held.limit) == (2, 2, 2)
    held.read(records(0, 7) + marker(1) + marker(2), 3)
    assert offsets(held) == [2]


def test_no_more_markers_are_listed_than_there_is_room_for() -> None:
    data = b"".join(marker(offset) for offset in range(5))
    held = HeldMarkers(0, most=2)
    held.read(data, 5)
    assert (offsets(held), held.is_full, held.listed_to, held.limit) == ([0, 1], True, 2, 0)
    held.release(1)
    assert (offsets(held), held.is_full) == ([1], False)
    held.read(data, 5)
    assert (offsets(held), held.is_full, held.listed_to) == ([1, 2], True, 3)


@pytest.mark.parametrize(
    ("place", "left", "limit"), [(0, [1, 4], 1), (1, [1, 4], 1), (2, [4], 4), (4, [4], 4), (5, [], 5), (9, [], 9)]
)
def test_a_place_releases_the_markers_below_it(place: int, left: list[int], limit: int) -> None:
    held = HeldMarkers(0)
    held.read(records(0, 7) + marker(1) + records(2, 7, count=2) + marker(4), 5)
    held.release(place)
    assert (offsets(held), held.limit, held.released_to) == (left, limit, place)
    held.release(0)
    assert (offsets(held), held.limit, held.released_to) == (left, limit, place)


def test_what_was_open_before_a_place_beyond_the_list_is_not_known() -> None:
    held = HeldMarkers(0)
    held.read(records(0, 7), 1)
    held.release(1)
    held.read(marker(1), 2)
    assert [each.is_empty for each in held.between(0, 9)] == [False]
    held.read(records(2, 7), 3)
    held.release(5)
    held.read(marker(5), 6)
    assert [each.is_empty for each in held.between(0, 9)] == [True]


@pytest.mark.parametrize(
    ("end", "left", "listed_to", "released_to"),
    [(9, [1, 4], 5, 1), (5, [1, 4], 5, 1), (4, [1], 4, 1), (1, [], 1, 1), (0, [], 0, 0)],
)
def test_markers_that_are_cut_off_are_not_held(end: int, left: list[int], listed_to: int, released_to: int) -> None:
    held = HeldMarkers(0)
    held.read(records(0, 7) + marker(1) + records(2, 7, count=2) + marker(4), 5)
    held.release(1)
    held.cut(end)
    assert (offsets(held), held.listed_to, held.released_to) == (left, listed_to, released_to)


def test_bounds_are_half_open() -> None:
    held = HeldMarkers(0)
    held.read(b"".join(marker(offset) for offset in range(5)), 5)
    assert [each.offset for each in held.between(1, 3)] == [1, 2]


def test_producers_are_unknown_behind_a_place_that_was_not_read_up_to() -> None:
    held = HeldMarkers(0)
    held.read(records(0, 7), 1)
    held.release(5)
    held.read(marker(5), 6)
    assert [each.is_empty for each in held.between(0, 6)] == [True]
