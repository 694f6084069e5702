"""The traffic of topics in the last seconds: counters that are read only while somebody looks."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.machines.console.topics import NO_RATE, TopicRate
from kpybroker.monitoring.console import topic_rates
from kpybroker.monitoring.console.topic_rates import EVERY_MS, IDLE_MS, PER_SLICE, READINGS, TopicRates
from kpybroker.runtime.io.scheduler import ManualScheduler


def held(name: str) -> Any:
    return SimpleNamespace(name=name, id=name.encode(), records_in=0, bytes_in=0, bytes_out=0)


class Watched:
    """Topics with counters, and the rates of them."""

    def __init__(self, *names: str) -> None:
        self.scheduler = ManualScheduler()
        self.topics = {name: held(name) for name in names}
        broker = SimpleNamespace(replicas=SimpleNamespace(topics=self.topics))
        sources: Any = SimpleNamespace(broker=broker, role=SimpleNamespace(is_controller_role=False))
        self.rates = TopicRates(sources, self.scheduler)

    def run(self, seconds: int, records: int = 0) -> None:
        """Let time pass; each second a topic gets some records of 10 bytes, which two consumers read."""
        for _ in range(seconds):
            for each in self.topics.values():
                each.records_in += records
                each.bytes_in += records * 10
                each.bytes_out += records * 20
            self.scheduler.advance(1_000)


def test_a_rate_is_that_of_the_last_seconds() -> None:
    watched = Watched("flights")
    watched.run(100, records=1_000)
    assert watched.rates.of("flights") == NO_RATE, "before somebody looks"
    watched.rates.look()
    assert watched.rates.of("flights") == NO_RATE, "nothing to compare with"
    watched.run(2, records=5)
    assert watched.rates.of("flights") == TopicRate(5.0, 50.0, 100.0)
    watched.run(60, records=7)
    assert watched.rates.of("flights") == TopicRate(7.0, 70.0, 140.0)
    watched.run(READINGS * EVERY_MS // 1000)
    assert watched.rates.of("flights") == TopicRate(0.0, 0.0, 0.0)
    assert watched.rates.of("elsewhere") == NO_RATE


def test_a_topic_that_was_created_again_begins_anew_and_never_falls() -> None:
    watched = Watched("flights")
    watched.run(1, records=100)
    watched.rates.look()
    watched.topics["flights"] = held("flights")
    watched.topics["flights"].id = b"another"
    watched.run(4, records=3)
    assert watched.rates.of("flights") == TopicRate(3.0, 30.0, 60.0)
    watched.topics["flights"].id = b"flights"
    watched.topics["flights"].records_in = 0
    assert watched.rates.of("flights").records_in == 0.0


def test_counters_are_read_only_while_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(topic_rates, "_counts", lambda each: read.append(each) or (0, 0, 0))
    watched = Watched("flights")
    watched.run(60)
    assert not read
    watched.rates.look()
    watched.run(20)
    assert len(read) == 1 + 20_000 // EVERY_MS
    watched.run(IDLE_MS // 1000 + 2 * EVERY_MS // 1000)
    read.clear()
    watched.run(60)
    assert not read, "it ends some time after the last look"
    watched.rates.look()
    watched.run(1)
    watched.rates.close()
    read.clear()
    watched.run(60)
    assert not read, "it ends with the console"


def test_many_topics_are_read_in_pieces() -> None:
    watched = Watched(*(str(number) for number in range(3 * PER_SLICE)))
    assert len(list(watched.rates._reading())) == 3


def test_a_node_that_is_only_a_controller_has_no_topics_to_read() -> None:
    sources: Any = SimpleNamespace(role=SimpleNamespace(is_controller_role=True))
    scheduler = ManualScheduler()
    rates = TopicRates(sources, scheduler)
    rates.look()
    scheduler.advance(60_000)
    rates.close()
