"""The assignors: a member that gets a partition reads its topic, and loads are even; members keep what they have."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.consumer.assignors import ASSIGNORS, Assignment, GroupSpec
from kpybroker.machines.groups.consumer.assignors.group_spec import MemberSpec
from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash, string_key, uuid_hash

TOPIC_IDS = [bytes([number]) * 16 for number in range(1, 6)]
sizes = st.dictionaries(st.sampled_from(TOPIC_IDS), st.integers(1, 20), min_size=1)
member_ids = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=9, unique=True)


def spec_of(subscriptions: Mapping[str, Mapping[bytes, int]], before: Assignment, homogeneous: bool) -> GroupSpec:
    members = {
        member_id: MemberSpec(None, topics, before.get(member_id, {})) for member_id, topics in subscriptions.items()
    }
    owners: dict[bytes, dict[int, str]] = {}
    for member_id in members:
        for topic_id, indexes in before.get(member_id, {}).items():
            owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member_id))
    return GroupSpec(members, homogeneous, owners)


def loads(assigned: Assignment, members: Mapping[str, object]) -> list[int]:
    return [sum(map(len, assigned.get(member_id, {}).values())) for member_id in members]


def check_valid(subscriptions: Mapping[str, Mapping[bytes, int]], assigned: Assignment) -> None:
    """Every partition that somebody reads has one owner, which reads its topic."""
    owned = [(topic, index) for each in assigned.values() for topic, indexes in each.items() for index in indexes]
    read = {
        (topic, index) for topics in subscriptions.values() for topic, size in topics.items() for index in range(size)
    }
    assert len(owned) == len(set(owned))
    assert set(owned) == read
    for member_id, each in assigned.items():
        assert each.keys() <= subscriptions[member_id].keys()


@pytest.mark.parametrize("name", ASSIGNORS)
@given(member_ids, sizes)
def test_members_that_read_the_same_get_all_of_it(name: str, ids: list[str], topics: dict[bytes, int]) -> None:
    subscriptions = dict.fromkeys(ids, topics)
    assigned = ASSIGNORS[name](spec_of(subscriptions, {}, homogeneous=True))
    check_valid(subscriptions, assigned)
    if name == "uniform":
        assert max(loads(assigned, subscriptions)) - min(loads(assigned, subscriptions)) <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
@given(st.data(), member_ids, sizes)
def test_members_that_read_different_topics_get_only_those(
    name: str, data: st.DataObject, ids: list[str], topics: dict[bytes, int]
) -> None:
    subscriptions = {
        member_id: {topic: topics[topic] for topic in data.draw(st.sets(st.sampled_from(sorted(topics))))}
        for member_id in ids
    }
    before: Assignment = {}
    for _ in range(2):
        assigned = ASSIGNORS[name](spec_of(subscriptions, before, homogeneous=False))
        check_valid(subscriptions, assigned)
        before = assigned


@given(member_ids, sizes)
def test_the_uniform_assignor_moves_no_more_than_it_must(ids: list[str], topics: dict[bytes, int]) -> None:
    uniform = ASSIGNORS["uniform"]
    before = uniform(spec_of(dict.fromkeys(ids, topics), {}, homogeneous=True))
    assert uniform(spec_of(dict.fromkeys(ids, topics), before, homogeneous=True)) == before
    subscriptions = dict.fromkeys([*ids, "one more member"], topics)
    after = uniform(spec_of(subscriptions, before, homogeneous=True))
    check_valid(subscriptions, after)
    assert max(loads(after, subscriptions)) - min(loads(after, subscriptions)) <= 1
    for member_id in ids:
        for topic_id, indexes in after[member_id].items():
            assert set(indexes) <= set(before[member_id].get(topic_id, ()))


def test_ranges_are_consecutive_and_static_members_come_first() -> None:
    topics = {TOPIC_IDS[0]: 5, TOPIC_IDS[1]: 2}
    members = {"a": MemberSpec(None, topics, {}), "z": MemberSpec("i", topics, {}), "b": MemberSpec(None, topics, {})}
    assigned = ASSIGNORS["range"](GroupSpec(members, True, {}))
    assert assigned == {
        "z": {TOPIC_IDS[0]: (0, 1), TOPIC_IDS[1]: (0,)},
        "a": {TOPIC_IDS[0]: (2, 3), TOPIC_IDS[1]: (1,)},
        "b": {TOPIC_IDS[0]: (4,)},
    }


def test_hashes_and_orders_are_those_of_java() -> None:
    assert string_hash("uniform") == 4_008_040_884
    assert string_hash("\U0001f600") == 1_772_899  # two units, as Java counts
    assert uuid_hash(bytes(7) + b"\1" + bytes(7) + b"\3") == 2
    assert in_hash_order(["range", "uniform"], string_hash) == ["uniform", "range"]
    assert sorted(["\uffee", "\U0001f600"], key=string_key) == ["\U0001f600", "\uffee"]
