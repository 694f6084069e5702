"""The active controller repeats its elections as often as its configs say."""

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.assembly.quorum import controller_timings


def test_unclean_elections_are_repeated_as_often_as_configured() -> None:
    config = BrokerConfig({"unclean.leader.election.interval.ms": "1234"})
    assert controller_timings(config).unclean_election_interval_ms == 1_234


def test_unclean_elections_are_repeated_every_five_minutes_by_default() -> None:
    assert controller_timings(BrokerConfig({})).unclean_election_interval_ms == 300_000
