"""Partitions that move: what is left of them, how long it takes, and the throttles that are listed."""

from types import SimpleNamespace
from typing import Any

from test_rows_of_pages import partition, totals_of

from kpybroker.machines.console.moves import MOST_MOVES, ThrottleRow, is_moving, left_of, throttles_of
from kpybroker.monitoring.console.move_rates import MoveRates

SPOT = ("t", 0)


def moving(isr: tuple[int, ...] = (1,)) -> Any:
    return partition(isr, 1, (1, 2, 3), adding_replicas=(2, 3), removing_replicas=(1,))


def test_the_bytes_that_are_left_are_those_that_new_replicas_lack() -> None:
    sizes = {(1, "t", 0): 1000, (2, "t", 0): 400, (3, "t", 0): 0}
    assert left_of("t", 0, moving(), sizes) == (2000, 1600)
    assert left_of("t", 0, moving((1, 3)), sizes) == (2000, 600), "a replica in sync lacks nothing"
    assert left_of("t", 0, moving(), {**sizes, (2, "t", 0): 5000}) == (2000, 1000)
    assert left_of("t", 0, moving(), {(1, "t", 0): 1000}) == (2000, None)
    assert left_of("t", 0, moving(), {(2, "t", 0): 5}) == (None, None)
    assert left_of("t", 0, partition((1, 2), 1, (1, 2), removing_replicas=(2,)), sizes) == (0, 0)


def test_moves_are_counted_and_listed_up_to_a_limit() -> None:
    assert is_moving(moving())
    assert is_moving(partition((1, 2), 1, (1, 2), removing_replicas=(2,)))
    assert not is_moving(partition((1, 2, 3), 1))
    found = totals_of(*[moving()] * (MOST_MOVES + 1), partition((1, 2, 3), 1))
    assert (found.moves, len(found.moving)) == (MOST_MOVES + 1, MOST_MOVES)


def test_partitions_without_a_leader_wait_for_their_last_replicas() -> None:
    lost = partition((2,), -1)
    assert dict(totals_of(lost, lost, partition((), -1, (1, 2), elr=(1,)), moving()).waiting) == {1: 1, 2: 2}


def test_the_time_that_is_left_follows_from_the_looks_of_the_last_minute() -> None:
    clock = SimpleNamespace(now=0.0, monotonic_ms=lambda: clock.now)
    rates = MoveRates(clock)  # type: ignore[arg-type]
    assert rates.left_s({SPOT: 1000}) == {}
    clock.now = 500.0
    assert rates.left_s({SPOT: 900}) == {}, "too short a time to tell"
    clock.now = 2_000.0
    assert rates.left_s({SPOT: 800}) == {SPOT: 8.0}
    clock.now = 70_000.0
    assert rates.left_s({SPOT: 800}) == {}, "nothing moved within the last minute"
    assert rates.left_s({}) == {}
    clock.now = 72_000.0
    assert rates.left_s({SPOT: 100}) == {}, "a move that was not seen in between begins again"


def test_throttles_of_brokers_and_topics_are_listed_and_other_configs_are_not() -> None:
    configs = {
        (4, ""): {"leader.replication.throttled.rate": "100", "log.retention.ms": "5"},
        (4, "2"): {"replica.alter.log.dirs.io.max.bytes.per.second": "7"},
        (2, "t"): {"follower.replication.throttled.replicas": "0:1", "leader.replication.throttled.replicas": ""},
        (32, "g"): {"leader.replication.throttled.rate": "100"},
    }
    assert [each for each in throttles_of(configs) if each is not None] == [
        ThrottleRow("broker", "", "leader.replication.throttled.rate", "100"),
        ThrottleRow("broker", "2", "replica.alter.log.dirs.io.max.bytes.per.second", "7"),
        ThrottleRow("topic", "t", "follower.replication.throttled.replicas", "0:1"),
    ]
