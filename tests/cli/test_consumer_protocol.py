"""The messages between members of a group, and how the leader shares out partitions."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.client.client import Spot
from kpybroker.client.consumer_protocol import (
    assign_ranges,
    assigned_spots,
    assignment,
    subscribed_topics,
    subscription,
)
from kpywire.errors import Malformed

names = st.sampled_from(["a", "b", "c", "d", "e"])
members = st.dictionaries(st.text(min_size=1, max_size=4), st.lists(names, unique=True), min_size=1, max_size=6)
counts = st.dictionaries(names, st.integers(0, 9))


@given(members, counts)
def test_each_subscribed_partition_has_one_owner_that_subscribes_to_it(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    plan = assign_ranges(wanted, counts)
    owners = Counter(spot for spots in plan.values() for spot in spots)
    some_want = {topic for topics in wanted.values() for topic in topics}
    assert owners == {Spot(topic, each): 1 for topic, n in counts.items() if topic in some_want for each in range(n)}
    for member, spots in plan.items():
        assert {spot.topic for spot in spots} <= set(wanted[member])


@given(members, counts)
def test_members_get_ranges_that_differ_by_one_at_most(wanted: dict[str, list[str]], counts: dict[str, int]) -> None:
    plan = assign_ranges(wanted, counts)
    for topic in counts:
        shares = [
            [spot.partition for spot in plan[member] if spot.topic == topic]
            for member in sorted(wanted)
            if topic in wanted[member]
        ]
        assert [each for share in shares for each in share] == sorted(each for share in shares for each in share)
        sizes = [len(share) for share in shares]
        assert sizes == sorted(sizes, reverse=True)
        assert not sizes or sizes[0] - sizes[-1] <= 1


@given(st.sets(st.builds(Spot, names, st.integers(0, 99))))
def test_an_assignment_reads_back(spots: set[Spot]) -> None:
    assert assigned_spots(assignment(spots)) == tuple(sorted(spots))


def test_a_subscription_reads_back() -> None:
    assert subscribed_topics(subscription(["b", "a"])) == ["a", "b"]


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    data = bytearray(assignment([Spot("t", 1)]))
    data[:2] = b"\x00\x09"
    assert assigned_spots(bytes(data)) == (Spot("t", 1),)


@given(st.binary(min_size=1))
def test_bytes_of_another_protocol_are_no_assignment(data: bytes) -> None:
    found = assigned_spots(data)
    assert found is None or all(isinstance(spot, Spot) for spot in found)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\xff"])
def test_a_subscription_that_is_none_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        subscribed_topics(data)
