"""The progress log of mirrors: what its records say is concluded by every reader, and other values change nothing."""

import json

import pytest

from kpybroker.machines.mirror import progress
from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport
from kpybroker.machines.mirror.progress import CutPart, Finder, MirrorWords, PartReport, Progress

ORDERS, PAYMENTS = b"o" * 16, b"p" * 16
FINDER = Finder("token", holds=True)
PART = PartReport((ORDERS, 1), LeaderReport(3, 10, 20, 18, (HeldMarker(12, 7, 2), HeldMarker(15, 8, 4, is_empty=True))))


def read(*values: bytes) -> Progress:
    found = Progress()
    for value in values:
        assert found.apply(value) is None
    return found


def conclusions(found: Progress) -> tuple[object, ...]:
    return found.places, found.cut, found.done, found.finders, found.wanted, found.words


def test_a_report_is_read_as_it_was_written() -> None:
    assert read().apply(progress.report("dr", "token", [PART])) == ("dr", "token", [PART])


def test_partitions_count_as_reported_to_the_finder_that_asked() -> None:
    found = read(progress.begin("dr", FINDER))
    for mirror, token in (("dr", "another"), ("other", "token")):
        found.apply(progress.report(mirror, token, [PART]))
        assert found.reported == {}
    found.apply(progress.report("dr", "token", [PART]))
    assert found.reported == {"dr": {PART.place}}
    found.apply(progress.begin("dr", FINDER))
    assert found.reported == {"dr": {PART.place}}, "the same finder asks again"
    found.apply(progress.begin("dr", Finder("token", holds=False)))
    assert found.reported == {}


def test_places_only_grow_and_those_of_a_topic_that_is_cut_stay() -> None:
    found = read(progress.places({(ORDERS, 0): 5, (PAYMENTS, 0): 6}), progress.places({(ORDERS, 0): 4, (ORDERS, 1): 0}))
    assert found.places == {(ORDERS, 0): 5, (ORDERS, 1): 0, (PAYMENTS, 0): 6}
    found.apply(progress.cut([ORDERS]))
    found.apply(progress.places({(ORDERS, 0): 9, (PAYMENTS, 0): 9}))
    assert found.places == {(ORDERS, 0): 5, (ORDERS, 1): 0, (PAYMENTS, 0): 9}


def test_nothing_is_known_of_a_topic_that_is_forgotten() -> None:
    found = read(
        progress.places({(ORDERS, 0): 5, (ORDERS, 1): 6, (PAYMENTS, 0): 7}),
        progress.cut([ORDERS, PAYMENTS]),
        *(progress.done((topic, 0), CutPart(5, 2)) for topic in (ORDERS, PAYMENTS)),
        progress.forget(ORDERS),
    )
    assert found.places == {(PAYMENTS, 0): 7}
    assert (found.cut, found.done) == ({PAYMENTS}, {(PAYMENTS, 0): CutPart(5, 2)})


def test_a_log_that_is_written_again_says_the_same() -> None:
    assert read().records() == []
    found = read(
        progress.begin("dr", FINDER),
        progress.begin("other", Finder("t", holds=False)),
        progress.want("dr", True),
        progress.want("other", False),
        progress.places({(ORDERS, 0): 5, (PAYMENTS, 1): 6}),
        progress.cut([PAYMENTS]),
        progress.done((PAYMENTS, 1), CutPart(6, 3)),
        progress.state("dr", MirrorWords("away", {(ORDERS, 0): "waits"})),
    )
    assert found.finders == {"dr": FINDER, "other": Finder("t", holds=False)}
    assert (found.wanted, found.cut) == ({"dr": True, "other": False}, {PAYMENTS})
    assert found.done == {(PAYMENTS, 1): CutPart(6, 3)}
    assert found.words == {"dr": MirrorWords("away", {(ORDERS, 0): "waits"})}
    assert conclusions(read(*found.records())) == conclusions(found)
    found.clear()
    assert conclusions(found) == conclusions(Progress())


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"{", b"5", b"null", b"[]", b'"begin"', b'{"a": 1}', b'["unknown", 1]', b'["begin"]', b'["cut"]',
        b'["cut", ["zz"]]', b'["cut", [5]]', b'["places", [[1, 2]]]', b'["places", [["00", [], 1]]]', b'["done", "00"]',
        b'["report", "dr"]', b'["report", "dr", "token", [["00"]]]', b'["state", "dr", ""]', b'["begin", [], "", true]',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_value_that_is_no_record_of_the_log_changes_nothing(value: bytes) -> None:
    assert conclusions(read(value)) == conclusions(Progress())


def test_records_are_short_texts() -> None:
    assert progress.want("dr", True) == b'["want","dr",true]'
    kind, mirror, token, rows = json.loads(progress.report("dr", "token", [PART]))
    assert (kind, mirror, token) == ("report", "dr", "token")
    assert rows == [[ORDERS.hex(), 1, 3, 10, 20, 18, [[12, 7, 2, 0], [15, 8, 4, 1]]]]
