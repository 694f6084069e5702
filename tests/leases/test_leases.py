"""The table of leases: they last, are renewed, end once, and are bounded."""

import pytest

from kpybroker.hosts.leases.leases import MOST_LEASES, MOST_SEGMENTS, Leases, TooManyLeases
from kpybroker.machines.lease_manifest import AbortedSpan, Manifest, PartitionManifest, from_json, to_json
from kpystorage.lending import LentSegment

SEGMENT = LentSegment(0, 10, "/d/t-0/a.log", "/d/t-0/a.index", 500, 7)


def test_a_lease_ends_after_its_time_unless_it_is_renewed() -> None:
    leases = Leases()
    leases.begin(1, 5_000)
    leases.begin(2, 5_000)
    for lease_id in (1, 2):
        leases.renew(lease_id, now_ms=0)
    assert leases.renew(2, now_ms=3_000) == 5_000
    assert (leases.due(4_999), leases.due(5_000), leases.next_end_ms()) == ([], [1], 5_000)
    assert leases.renew(3, now_ms=0) is None


def test_the_time_of_a_lease_begins_when_its_segments_are_lent() -> None:
    leases = Leases()
    leases.begin(1, 1_000)
    assert (leases.due(1 << 60), leases.next_end_ms()) == ([], None)
    leases.add(1, [SEGMENT])
    assert leases.renew(1, now_ms=50_000) == 1_000
    assert (leases.due(50_999), leases.due(51_000), leases.next_end_ms()) == ([], [1], 51_000)


def test_a_lease_gives_its_segments_back_once() -> None:
    leases = Leases()
    leases.begin(1, 5_000)
    leases.add(1, [SEGMENT])
    assert leases.segments == 1
    assert (leases.end(1), leases.end(1), leases.segments) == ([SEGMENT], None, 0)


def test_leases_and_their_segments_are_bounded() -> None:
    leases = Leases()
    for number in range(MOST_LEASES):
        leases.begin(number, 5_000)
    with pytest.raises(TooManyLeases, match=f"there are {MOST_LEASES} leases"):
        leases.begin(MOST_LEASES, 5_000)
    leases.add(0, [SEGMENT] * MOST_SEGMENTS)
    with pytest.raises(TooManyLeases, match="segments are lent"):
        leases.add(1, [SEGMENT])


def test_a_manifest_is_the_same_after_its_way_as_json() -> None:
    part = PartitionManifest("t", bytes(range(16)), 3, 1, 2, 9, 10, 8, [SEGMENT], [AbortedSpan(5, 2, 4)])
    manifest = Manifest("cluster", 1, "ab" * 16, 600_000, [part], [("u", 0, "no such partition on this node")])
    assert from_json(to_json(manifest)) == manifest


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"partitions": 3}', b'{"partitions": [{}], "refused": []}'])
def test_an_invalid_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a manifest"):
        from_json(text)
