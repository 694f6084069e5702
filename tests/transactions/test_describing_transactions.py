"""DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152)."""

import pytest
from transaction_world import TIMEOUT_MS, TransactionWorld

from kpybroker.machines.transactions.transaction import STATE_NAMES
from kpywire import error_codes


@pytest.fixture
def three(world: TransactionWorld) -> TransactionWorld:
    """An empty id "a", an open transaction of "b" that began 5 s ago, and a prepared one of "c" from just now."""
    world.started("a")
    world.add(world.started("b"), transactional_id="b")
    world.advance(5_000)
    producer = world.started("c")
    world.add(producer, ("u", 2), ("t", 1), ("t", 0), transactional_id="c")
    world.end(producer, transactional_id="c")
    return world


def test_a_description_has_the_producer_its_state_and_its_partitions(three: TransactionWorld) -> None:
    described = three.describe("c")
    transaction = three.transactions["c"]
    assert described.error_code == error_codes.NONE
    assert described.transaction_state == "PrepareCommit"
    assert (described.producer_id, described.producer_epoch) == (transaction.producer_id, 1)
    assert described.transaction_timeout_ms == TIMEOUT_MS
    assert described.transaction_start_time_ms == three.now_ms
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0, 1]), ("u", [2])]
    assert three.describe("a").transaction_start_time_ms == -1


def test_unknown_transactional_ids_are_not_described(world: TransactionWorld) -> None:
    assert world.describe("x").error_code == error_codes.TRANSACTIONAL_ID_NOT_FOUND
    assert world.describe("").error_code == error_codes.INVALID_REQUEST


def test_filters_work_together(three: TransactionWorld) -> None:
    assert three.listed() == {"a", "b", "c"}
    assert three.listed(state_filters=["Empty", "Ongoing"]) == {"a", "b"}
    producer_id = three.transactions["b"].producer_id
    assert three.listed(producer_id_filters=[producer_id, 1]) == {"b"}
    assert three.listed(producer_id_filters=[producer_id], state_filters=["Empty"]) == set()
    assert three.listed(transactional_id_pattern="a|b") == {"a", "b"}
    assert three.listed(transactional_id_pattern="") == {"a", "b", "c"}


def test_unknown_state_filters_are_reported_and_match_nothing(three: TransactionWorld) -> None:
    response = three.listing(state_filters=["empty", "Empty", "Nonsense", "Nonsense"])
    assert response.unknown_state_filters == ["empty", "Nonsense"]
    assert [each.transactional_id for each in response.transaction_states] == ["a"]
    assert three.listed(state_filters=["Nonsense"]) == set()
    assert three.listing(state_filters=list(STATE_NAMES.values())).unknown_state_filters == []


def test_a_duration_lets_pass_what_runs_longer_and_ids_that_never_ran(three: TransactionWorld) -> None:
    assert three.listed(duration_filter=4_999) == {"a", "b"}
    assert three.listed(duration_filter=5_000) == {"a"}
    assert three.listed(duration_filter=0) == {"a", "b"}
    assert three.listed(duration_filter=-1) == {"a", "b", "c"}


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a{1001}", "\ud800"])
def test_a_pattern_that_is_none_is_an_error(three: TransactionWorld, pattern: str) -> None:
    response = three.listing(transactional_id_pattern=pattern)
    assert response.error_code == error_codes.INVALID_REGULAR_EXPRESSION
    assert response.transaction_states == []


def test_no_pattern_takes_long(world: TransactionWorld) -> None:
    """With backtracking this one would not end in a lifetime."""
    world.started("a" * 60)
    assert world.listed(transactional_id_pattern="(a+)+b") == set()
    assert world.listed(transactional_id_pattern=r"\pL+") == {"a" * 60}
