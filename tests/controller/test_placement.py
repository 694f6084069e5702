"""The placement of replicas: on different brokers, over all racks, evenly, never led by a fenced broker."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.controller.placement import UsableBroker, place
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

BROKERS = st.lists(
    st.builds(UsableBroker, st.integers(0, 20), st.sampled_from([None, "a", "b", "c"]), st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda broker: broker.id,
)

NO_USABLE_BROKERS = "All brokers are currently fenced, or have all their log directories cordoned."


@given(BROKERS, st.integers(1, 30), st.integers(1, 12), st.integers())
def test_replicas_are_distinct_and_led_by_a_live_broker(
    brokers: list[UsableBroker], partitions: int, replication_factor: int, seed: int
) -> None:
    unfenced = {broker.id for broker in brokers if not broker.fenced}
    if not unfenced or replication_factor > len(brokers):
        with pytest.raises(KafkaError) as refused:
            place(brokers, partitions, replication_factor, Random(seed))
        assert refused.value.code == error_codes.INVALID_REPLICATION_FACTOR
        return
    placed = list(place(brokers, partitions, replication_factor, Random(seed)))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert set(replicas) <= {broker.id for broker in brokers}
        assert replicas[0] in unfenced


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers())
def test_replicas_spread_over_as_many_racks_as_there_are(racks: int, each: int, factor: int, seed: int) -> None:
    brokers = [UsableBroker(rack * 10 + number, f"r{rack}", False) for rack in range(racks) for number in range(each)]
    factor = min(factor, len(brokers))
    for replicas in place(brokers, 12, factor, Random(seed)):
        assert len({broker_id // 10 for broker_id in replicas}) == min(factor, racks)


@given(st.integers(1, 8), st.integers())
def test_leaders_and_replicas_spread_evenly(count: int, seed: int) -> None:
    brokers = [UsableBroker(number, None, False) for number in range(count)]
    placed = list(place(brokers, count * 6, min(3, count), Random(seed)))
    leaders = Counter(replicas[0] for replicas in placed)
    everything = Counter(broker for replicas in placed for broker in replicas)
    assert max(leaders.values()) - min(leaders.values()) <= count
    assert len(leaders) == count
    assert max(everything.values()) <= 2 * min(everything.values())


def test_topics_of_one_partition_do_not_pile_up_on_one_broker() -> None:
    brokers = [UsableBroker(number, None, False) for number in range(5)]
    leaders = {next(place(brokers, 1, 1, Random(seed)))[0] for seed in range(100)}
    assert leaders == set(range(5))


def test_when_every_broker_has_led_their_order_changes() -> None:
    """Else the second partition of the leader's neighbour would have its replicas where those of the first are."""
    brokers = [UsableBroker(number, None, False) for number in range(5)]
    rounds = set()
    for seed in range(20):
        placed = list(place(brokers, 10, 3, Random(seed)))
        rounds.add(placed[:5] == placed[5:])
        assert Counter(replicas[0] for replicas in placed[:5]) == Counter(range(5))
        assert Counter(replicas[0] for replicas in placed[5:]) == Counter(range(5))
    assert rounds == {False}


def test_a_fenced_broker_follows_only_where_no_other_is_left() -> None:
    brokers = [UsableBroker(1, None, False), UsableBroker(2, None, False), UsableBroker(3, None, True)]
    assert {frozenset(replicas) for replicas in place(brokers, 20, 2, Random(1))} == {frozenset({1, 2})}


@pytest.mark.parametrize(
    ("brokers", "factor", "message"),
    [
        ([UsableBroker(1, None, False)], 0, "Invalid replication factor 0: the replication factor must be positive."),
        (
            [UsableBroker(1, None, True)],
            1,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
        ([], 1, "All brokers are currently fenced, or have all their log directories cordoned."),
    ],
)
def test_refusals_are_worded_as_kafka_words_them(brokers: list[UsableBroker], factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, factor, Random(1))
    assert refused.value.message == message


@given(st.permutations(range(6)), st.integers())
def test_the_order_in_which_brokers_are_known_decides_nothing(order: list[int], seed: int) -> None:
    brokers = [UsableBroker(number, "ab"[number % 2], fenced=number > 3) for number in range(6)]
    shuffled = [brokers[number] for number in order]
    assert [*place(shuffled, 9, 2, Random(seed))] == [*place(brokers, 9, 2, Random(seed))]
