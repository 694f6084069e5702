"""The clock that a test moves: what becomes due, in what order, and what it leaves alone."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kpybroker.testing import Broker
from kpybroker.testing.clock import ControlledScheduler

HOUR_MS = 3_600_000


def test_records_leave_when_their_retention_is_over() -> None:
    with Broker() as broker:
        broker.create_topic("short", config={"retention.ms": HOUR_MS})
        broker.create_topic("long", config={"retention.ms": 48 * HOUR_MS})
        for topic in ("short", "long"):
            broker.produce(topic, "old")
        broker.clock.advance(minutes=50)
        assert len(broker.records("short")) == 1
        broker.clock.advance(minutes=20)
        assert broker.records("short") == []
        assert len(broker.records("long")) == 1
        broker.produce("short", "new")
        broker.assert_records("short", [{"value": "new", "offset": 1}])


def test_time_is_the_real_one_further_on() -> None:
    with Broker() as broker:
        before = datetime.now(UTC)
        now = broker.clock.advance(timedelta(days=2), hours=1)
        assert timedelta(days=2, hours=1) <= now - before <= timedelta(days=2, hours=1, minutes=5)
        (record,) = broker.produce("t", "stamped")
        assert abs(record.timestamp_ms - broker.clock.now_ms()) < 300_000
        assert now <= broker.clock.now()


@pytest.mark.parametrize("process", [False, True])
def test_a_clock_goes_on_after_a_restart_and_never_goes_back(process: bool) -> None:
    with Broker(process=process) as broker:
        broker.produce("t", "a")
        snapshot = broker.snapshot()
        later = broker.clock.advance(days=1)
        broker.restart()
        assert broker.clock.now() >= later
        broker.restore(snapshot)
        assert broker.clock.now() >= later
        with pytest.raises(ValueError, match="never goes back"):
            broker.clock.advance(hours=-1)
    with Broker(snapshot=snapshot) as broker:
        assert broker.clock.now() < later


def test_clients_stay_connected_and_the_broker_stays_registered_over_weeks() -> None:
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        first = producer.send("t", b"before").get(30)
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, consumer_timeout_ms=20_000)
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_end()
        consumer.position(TopicPartition("t", 0))
        broker.clock.advance(days=40)
        assert producer.send("t", b"after").get(30).offset == first.offset + 1
        assert next(consumer).value == b"after"
        producer.close()
        consumer.close()


def fired_in(scenario_ms: list[int], advance_ms: float) -> list[tuple[int, int]]:
    """Timers of these delays: (delay, milliseconds of the shifted clock at which it fired)."""
    fired: list[tuple[int, int]] = []

    async def scenario() -> None:
        scheduler = ControlledScheduler(asyncio.get_running_loop())
        start_ms = scheduler.monotonic_ms()
        for delay_ms in scenario_ms:
            scheduler.call_later(
                delay_ms, lambda delay=delay_ms: fired.append((delay, round(scheduler.monotonic_ms() - start_ms)))
            )
        await scheduler.advance(advance_ms)
        await scheduler.close()

    asyncio.run(scenario())
    return fired


def test_timers_fire_in_the_order_in_which_they_are_due_and_no_later_than_a_step() -> None:
    delays = [50_000, 10_000, 90_000, 10_000, 200_000]
    fired = fired_in(delays, 100_000)
    assert [delay for delay, _ in fired] == [10_000, 10_000, 50_000, 90_000]
    assert all(delay <= at <= delay + 100_000 / 500 + 5000 for delay, at in fired)


def test_consequences_of_a_timer_happen_in_the_same_advance() -> None:
    happened: list[str] = []

    async def scenario() -> None:
        scheduler = ControlledScheduler(asyncio.get_running_loop())

        def first() -> None:
            happened.append("first")
            scheduler.submit_blocking(lambda: 7, lambda result, _: scheduler.call_later(5000, second, result))

        def second(result: int | None) -> None:
            happened.append(f"second {result}")
            scheduler.call_soon(lambda: happened.append("soon"))

        scheduler.call_later(5000, first)
        cancelled = scheduler.call_later(6000, happened.append, "cancelled")
        cancelled.cancel()
        await scheduler.advance(20_000)
        await scheduler.close()

    asyncio.run(scenario())
    assert happened == ["first", "second 7", "soon"]


def test_short_recurring_timers_do_not_slow_a_long_advance() -> None:
    async def scenario() -> int:
        scheduler = ControlledScheduler(asyncio.get_running_loop())
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            scheduler.call_later(1, tick)

        tick()
        await scheduler.advance(365 * 24 * HOUR_MS)
        await scheduler.close()
        return ticks

    assert asyncio.run(scenario()) <= 1000


def test_a_timer_that_is_not_due_yet_comes_so_much_sooner() -> None:
    async def scenario() -> float:
        scheduler = ControlledScheduler(asyncio.get_running_loop())
        fired = asyncio.Event()
        scheduler.call_later(60_000, fired.set)
        await scheduler.advance(59_990)
        assert not fired.is_set()
        started = time.monotonic()
        await asyncio.wait_for(fired.wait(), 30)
        await scheduler.close()
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 30


def test_closing_leaves_no_timer_in_the_loop() -> None:
    async def scenario() -> None:
        scheduler = ControlledScheduler(asyncio.get_running_loop())
        done = asyncio.Event()
        scheduler.call_later(1, lambda: pytest.fail("it was abandoned"))
        scheduler.submit_blocking(lambda: 1, lambda _result, _error: done.set())
        await scheduler.close()
        assert done.is_set(), "the changes are reported"
        await asyncio.sleep(0.02)

    asyncio.run(scenario())
