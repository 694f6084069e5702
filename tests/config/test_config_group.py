"""The configs of a group, as the broker reads them for its coordinator."""

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.group import effective, within
from kpybroker.hosts.coordinators.groups import own_settings


@pytest.mark.parametrize("name", own_settings().values())
def test_every_config_of_a_coordinator_has_bounds_that_exist(name: str) -> None:
    config = BrokerConfig.load(None, {})
    default = effective({}, config)[name]
    assert within(config, name, default) == default


def test_standbys_have_an_upper_bound_only_and_the_delay_has_none() -> None:
    config = BrokerConfig.load(None, {"group.streams.max.standby.replicas": "2"})
    assert within(config, "streams.num.standby.replicas", 9) == 2
    assert within(config, "streams.num.standby.replicas", 0) == 0
    assert within(config, "streams.initial.rebalance.delay.ms", 3_600_000) == 3_600_000
    assert within(config, "share.session.timeout.ms", 1) == int(config["group.share.min.session.timeout.ms"])
