"""The changes by which topics become mirrors of a source's, and the offsets of groups that are carried over."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kpybroker.machines.mirror.group_offsets import GroupOffset, GroupRemoval, clamped, removals
from kpybroker.machines.mirror.mirror import Mirror, mirrors_of
from kpybroker.machines.mirror.planning import (
    EPOCH_MARGIN,
    EPOCH_ROOM,
    TopicHere,
    TopicThere,
    carried,
    plan_topics,
)

DR = Mirror("dr", ["orders.*", "payments"])
ID, OTHER = bytes(15) + b"i", bytes(15) + b"o"


def there(name: str = "payments", **fields: Any) -> TopicThere:
    return TopicThere(name, ID, 2, 5, {})._replace(**fields)


def here(**fields: Any) -> TopicHere:
    return TopicHere(ID, 2, 5 + EPOCH_MARGIN, "dr", {})._replace(**fields)


@pytest.mark.parametrize(
    ("topic", "is_taken"),
    [
        ("orders.eu", True),
        ("orders.", True),
        ("orders", False),
        ("ordersXeu", False),
        ("payments", True),
        ("payments2", False),
        ("__consumer_offsets", False),
    ],
)
def test_a_pattern_takes_whole_names(topic: str, is_taken: bool) -> None:
    assert DR.takes(topic) is is_taken


def test_topics_that_kafka_keeps_for_itself_are_never_mirrored() -> None:
    assert not Mirror("all", ["*"]).takes("__transaction_state")
    assert Mirror("all", ["*"]).takes("a")


def test_the_config_names_mirrors_as_they_are_written() -> None:
    assert mirrors_of(["dr:orders.*|payments", " b:*"]) == {"dr": DR, "b": Mirror("b", ["*"])}
    assert str(DR) == "dr:orders.*|payments"
    assert [other == DR for other in (Mirror("dr", ["orders.*", "payments"]), Mirror("dr", []), str(DR))] == [
        True,
        False,
        False,
    ]


def test_a_topic_that_is_missing_is_created_with_a_later_epoch() -> None:
    plan = plan_topics(DR, [there()], {})
    assert plan.create == [(there(), 5 + EPOCH_MARGIN)]
    assert [epoch for _, epoch in plan_topics(DR, [there(leader_epoch=-1)], {}).create] == [EPOCH_MARGIN]
    assert plan.unfed == {}


def test_nothing_is_to_do_where_both_are_equal() -> None:
    assert plan_topics(DR, [there()], {"payments": here()}).is_done


def test_partitions_are_added_and_never_removed() -> None:
    assert plan_topics(DR, [there(partitions=7)], {"payments": here()}).grow == [("payments", 7)]
    assert plan_topics(DR, [there(partitions=1)], {"payments": here()}).is_done


@example(epoch=7, least=7 + EPOCH_ROOM)
@example(epoch=7, least=7 + EPOCH_ROOM - 1)
@given(epoch=st.integers(0, 10_000), least=st.integers(0, 20_000))
def test_leader_epochs_are_raised_before_those_of_the_source_reach_them(epoch: int, least: int) -> None:
    raised = plan_topics(DR, [there(leader_epoch=epoch)], {"payments": here(leader_epoch=least)}).raise_epoch
    assert raised == ([("payments", epoch + EPOCH_MARGIN)] if least < epoch + EPOCH_ROOM else [])


def test_configs_follow_the_source_but_for_those_of_each_cluster() -> None:
    source = {"retention.ms": "7", "min.insync.replicas": "3", "remote.storage.enable": "true"}
    present = {"cleanup.policy": "compact", "kpybroker.mirror.source": "dr", "min.insync.replicas": "2"}
    plan = plan_topics(DR, [there(configs=source)], {"payments": here(configs=present)})
    assert plan.configure == [("payments", {"retention.ms": "7", "cleanup.policy": None})]
    assert carried(source) == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("source", "found", "reason"),
    [
        ([there()], here(mirror=""), "it is of no mirror"),
        ([there()], here(mirror="other"), "it is of the mirror other"),
        ([there(id=OTHER)], here(), "created again"),
        ([], here(), "does not exist at the source"),
    ],
)
def test_a_topic_that_cannot_be_fed_stays_and_has_a_reason(
    source: list[TopicThere], found: TopicHere, reason: str
) -> None:
    plan = plan_topics(DR, source, {"payments": found})
    assert plan.is_done
    assert reason in plan.unfed["payments"]


@given(
    commits=st.dictionaries(st.tuples(st.just("t"), st.integers(0, 3)), st.integers(0, 50)),
    ends=st.dictionaries(st.tuples(st.just("t"), st.integers(0, 3)), st.integers(0, 50)),
)
def test_no_offset_of_a_group_is_above_the_mirrored_records(
    commits: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
) -> None:
    found = clamped({place: GroupOffset(offset, 3, "m") for place, offset in commits.items()}, ends)
    assert {place: commit.offset for place, commit in found.items()} == {
        place: min(offset, ends[place]) for place, offset in commits.items() if place in ends
    }
    assert all(commit.leader_epoch == 3 for place, commit in found.items() if commit.offset == commits[place])


def test_offsets_that_the_source_does_not_have_any_more_are_removed() -> None:
    one, two, gone = ("t", 0), ("t", 1), ("deleted", 0)
    commit = GroupOffset(5, 3, "")
    carried = {group: [one, two, gone] for group in ("whole", "part", "dead", "unknown")} | {"small": [one]}
    found = {"whole": {one: commit, two: commit}, "part": {one: commit}}
    due = removals(carried, found, {"dead", "small"}, {"t"})
    assert due == {
        "part": GroupRemoval(frozenset([two]), is_whole=False),
        "dead": GroupRemoval(frozenset([one, two]), is_whole=False),
        "small": GroupRemoval(frozenset([one]), is_whole=True),
    }


def test_the_end_of_a_partition_may_be_committed_with_its_epoch() -> None:
    commits = {("t", number): GroupOffset(10, 3, "m") for number in range(3)}
    assert clamped(commits, {("t", 0): 10, ("t", 1): 9}) == {
        ("t", 0): GroupOffset(10, 3, "m"),
        ("t", 1): GroupOffset(9, -1, "m"),
    }
