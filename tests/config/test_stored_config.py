"""The stored configuration of a node holds for all its roles, and is worked out once."""

from typing import Any

import pytest

from kpybroker.config import stored
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, MetadataImage

SECOND = "2"


@pytest.mark.parametrize(
    ("changed", "times"),
    [([(BROKER_RESOURCE, stored.CLUSTER_DEFAULT), (BROKER_RESOURCE, "1")], 1), ([(BROKER_RESOURCE, SECOND)], 0)],
)
def test_a_change_makes_the_configuration_once_for_every_role(
    changed: list[tuple[int, str]], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    reread = stored.reread
    monkeypatch.setattr(stored, "reread", lambda *arguments: made.append(1) or reread(*arguments))
    current = stored.CurrentConfig(BrokerConfig({"node.id": "1"}))
    notified: list[BrokerConfig] = []
    for _ in ("broker", "controller"):
        current.when_changed(notified.append)
    image, delta = MetadataImage("c"), MetadataDelta()
    for resource in changed:
        image.configs[resource] = {"log.cleaner.threads": "7"}
        delta.configs[resource] = {"log.cleaner.threads"}
    current.apply(image, delta)
    assert len(made) == times
    assert [config["log.cleaner.threads"] for config in notified] == [7, 7] * times
    assert len({id(config) for config in notified}) == times
