"""Producers of transactions end their last one and keep a pace: a run is over, and nobody is faster than asked."""

from math import ceil

from benchmarks.raw.asking import Address
from benchmarks.raw.transacting import Producer, transact
from kpybroker.testing import Broker

PRODUCERS = 3
SECONDS = 0.3


def test_producers_take_their_turns_in_time_and_as_soon_as_they_can() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        host, port = broker.bootstrap_servers.split(":")
        producers = [Producer(Address(host, int(port)), f"p{number}", "t", range(2)) for number in range(PRODUCERS)]
        paced = transact(producers, b"v", SECONDS, per_second=30)
        assert PRODUCERS <= len(paced) <= PRODUCERS * ceil(SECONDS * 30 / PRODUCERS)
        at_once = transact(producers, b"v", SECONDS)
        assert len(at_once) >= PRODUCERS
        assert all(0 < took.commit_s < took.whole_s for took in (*paced, *at_once))
        for producer in producers:
            producer.close()
        assert len(broker.records("t")) == 2 * (len(paced) + len(at_once))
