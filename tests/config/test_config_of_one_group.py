"""Every config of a group that docs/configs.md promises to act on changes the settings that its coordinator, its share
partitions or its subscription work with, and no other config does.

Planted: a group's own value that is not read, so that the default counts. It is found for each config.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from kpybroker.config import client_metrics
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.group import effective, validate
from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from kpybroker.config.honoured import HONOURED_GROUP
from kpybroker.hosts.coordinators import groups
from kpybroker.hosts.coordinators.followed_topics import FollowedTopics
from kpybroker.machines.config_def import BOOLEAN, INT, LONG
from kpybroker.machines.metadata.features import DEAD_LETTERS, SHARE_VERSION
from kpybroker.machines.metadata.image import MetadataDelta, MetadataImage
from kpybroker.machines.telemetry.subscriptions import CLIENT_METRICS_RESOURCE, ClientSubscriptions
from kpybroker.requests.serving.share import settings as share_settings

GROUP_RESOURCE = 32
CONFIG = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data"})
OTHER_VALUES = {
    "errors.deadletterqueue.topic.name": "dlq.g",
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "streams.rack.aware.assignment.tags": "zone",
    "interval.ms": "1000",
    "match": "client_id=a",
    "metrics": "org.apache.kafka.",
}
"""Values that are not the default, of configs that are no numbers and no switches."""
ONE_VALUE = frozenset({"streams.assignor.name"})
"""Configs that have one value that may be set."""
NEEDED = {
    "errors.deadletterqueue.copy.record.enable": {"errors.deadletterqueue.topic.name": "dlq.g"},
    "interval.ms": {"metrics": "org."},
    "match": {"metrics": "org."},
}
"""Configs that mean something beside others."""


def other_value(name: str) -> str:
    """A valid value of a config that is not its default."""
    key = GROUP_CONFIGS.get(name) or CLIENT_METRICS_CONFIGS[name]
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if key.type == BOOLEAN:
        return str(not key.default).lower()
    assert key.type in (INT, LONG), name
    assert isinstance(key.default, int)
    return str(key.default + 1)


def acts_on(configs: Mapping[str, str]) -> tuple[Any, ...]:
    """The settings of a group, and of a subscription, with these configs."""
    image = MetadataImage("cluster")
    image.features[SHARE_VERSION] = DEAD_LETTERS
    own = {name: value for name, value in configs.items() if name in GROUP_CONFIGS}
    validate(own, CONFIG)
    image.configs[GROUP_RESOURCE, "g"] = own
    topics = FollowedTopics()
    topics.apply(image, MetadataDelta())
    of_coordinator = groups._settings(CONFIG, topics).of_group("g")._replace(overrides_of=dict)
    subscribed = {name: value for name, value in configs.items() if name in CLIENT_METRICS_CONFIGS}
    subscriptions = ClientSubscriptions({(CLIENT_METRICS_RESOURCE, "s"): subscribed}, client_metrics.values_of)
    wanted = subscriptions.wanted_of({"client_id": "b"})
    return of_coordinator, share_settings.settings_of("g", image, CONFIG), wanted


def without_effect(names: frozenset[str]) -> set[str]:
    """The configs whose other value changes nothing."""
    return {
        name
        for name in names - ONE_VALUE
        if acts_on({**NEEDED.get(name, {}), name: other_value(name)}) == acts_on(NEEDED.get(name, {}))
    }


def test_every_config_of_a_group_in_force_changes_its_settings() -> None:
    assert without_effect(HONOURED_GROUP) == set()


def test_no_other_config_of_a_group_that_is_shown_changes_them() -> None:
    others = {name for name, key in {**GROUP_CONFIGS, **CLIENT_METRICS_CONFIGS}.items() if not key.internal}
    assert without_effect(frozenset(others - HONOURED_GROUP)) == others - HONOURED_GROUP


@pytest.mark.parametrize("name", sorted(HONOURED_GROUP - ONE_VALUE))
def test_a_value_of_a_group_that_is_not_read_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def ignoring(overrides: Mapping[str, str], config: BrokerConfig) -> Mapping[str, Any]:
        return effective({each: value for each, value in overrides.items() if each != name}, config)

    monkeypatch.setattr("kpybroker.config.group.effective", ignoring)
    monkeypatch.setattr(share_settings, "effective", ignoring)
    values_of = client_metrics.values_of
    monkeypatch.setattr(
        client_metrics,
        "values_of",
        lambda configs: values_of({each: value for each, value in configs.items() if each != name}),
    )
    assert without_effect(HONOURED_GROUP) >= {name}
