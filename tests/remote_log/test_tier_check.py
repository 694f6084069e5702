"""The objects of a store beside the metadata: what is missing, what belongs to nothing, what is under way."""

import pytest

from kpybroker.cli.tier_check import FOREIGN, MISSING, ORPHAN, SIZE, UNFINISHED, UNREADABLE, compare, read_all
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import (
    DELETING,
    FINISHED,
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
)
from kpybroker.machines.remote_log.sweep import ListedObject

TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
CHUNKED = (".log", ".indexes", ".rsm-manifest")


def segment_id(number: int) -> bytes:
    return bytes([number]) * 16


def segments(*states: RemoteLogSegmentState) -> RemoteSegments:
    """Segments of 100 offsets and 1000 bytes, numbered from 0, in these states."""
    made = RemoteSegments(TOPIC_ID, "orders", 0)
    for number, state in enumerate(states):
        start = number * 100
        identity = RemoteLogSegmentId(TOPIC_ID, "orders", 0, segment_id(number))
        segment = RemoteLogSegment(
            identity, start, start + 99, 1, 5, 5, ((0, start),), 1_000, None, STARTED, is_transaction_index_empty=True
        )
        made.apply(segment)
        for following in (FINISHED, DELETING):
            if state >= following:
                made.apply(segment.update(following, 1, 5))
    return made


def objects(number: int, endings: tuple[str, ...] = CHUNKED, topic_id: bytes = TOPIC_ID) -> list[ListedObject]:
    return [
        ListedObject(f"orders/0/{number}{ending}", topic_id, 0, segment_id(number), 1_000 if ending == ".log" else 10)
        for ending in endings
    ]


def kinds(listing: list[ListedObject], *states: RemoteLogSegmentState, is_plain: bool = True) -> list[tuple[str, str]]:
    compared = compare(listing, {(TOPIC_ID, 0): segments(*states)}, is_plain=is_plain)
    return [(each.kind, each.text) for each in compared.findings]


def test_a_store_with_all_objects_is_in_order():
    compared = compare([*objects(0), *objects(1)], {(TOPIC_ID, 0): segments(FINISHED, FINISHED)}, is_plain=True)
    assert compared.is_in_order
    assert compared[:3] == (2, 6, 2_040)
    assert compared.findings == []


def test_the_single_log_of_another_layout_is_enough():
    assert kinds(objects(0, (".log", ".index")), FINISHED) == []
    assert kinds(objects(0, (".index",)), FINISHED) == [(MISSING, "the store lacks its .log")]


def test_a_segment_without_objects_is_missing():
    compared = compare(objects(0), {(TOPIC_ID, 0): segments(FINISHED, FINISHED)}, is_plain=True)
    (found,) = compared.findings
    assert (found.kind, found.place[:27], found.size_bytes) == (MISSING, "orders-0 offsets 100 to 199", 1_000)
    assert not compared.is_in_order


@pytest.mark.parametrize("lost", CHUNKED)
def test_a_segment_that_lacks_one_object_is_missing(lost: str):
    left = tuple(each for each in CHUNKED if each != lost)
    assert kinds(objects(0, left), FINISHED) == [(MISSING, f"the store lacks its {lost}")]


def test_objects_that_belong_to_nothing_are_no_damage():
    listing = [*objects(7, (".log",)), *objects(0, (".log",), OTHER_ID)]
    compared = compare(listing, {(TOPIC_ID, 0): segments()}, is_plain=True)
    assert [each.kind for each in compared.findings] == [ORPHAN, FOREIGN]
    assert compared.is_in_order


def test_copies_and_deletions_under_way_are_no_damage():
    assert kinds([], STARTED, DELETING) == [(UNFINISHED, "its copy has not ended")]
    assert kinds(objects(0), DELETING) == [(UNFINISHED, "its deletion has not ended")]


def test_a_log_of_another_size_is_found_where_logs_are_stored_as_they_are():
    short = [each._replace(size_bytes=999) if each.key.endswith(".log") else each for each in objects(0)]
    assert kinds(short, FINISHED) == [(SIZE, "its log has 999 bytes, the metadata say 1000")]
    assert kinds(short, FINISHED, is_plain=False) == []


def test_only_readable_segments_are_read():
    asked = []

    def read(segment: RemoteLogSegment) -> str | None:
        asked.append(segment.start_offset)
        return "a batch is damaged" if segment.start_offset else None

    metadata = {(TOPIC_ID, 0): segments(FINISHED, FINISHED, STARTED, DELETING)}
    (found,) = read_all(metadata, read, lambda: None)
    assert asked == [0, 100]
    assert (found.kind, found.text) == (UNREADABLE, "a batch is damaged")
