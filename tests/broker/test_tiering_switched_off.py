"""Tiered topics on a broker that has tiered storage switched off, and topics that are never tiered."""

from pathlib import Path
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import TopicConfig, effective
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.topic_name import NEVER_TIERED
from kpybroker.node.assembly.metadata_source import refuse_tiered_topics
from kpybroker.testing import Broker, BrokerFailed

TIERING = {"remote.log.storage.system.enable": "true", "kpybroker.remote.store": "memory:"}
TIERED = {"remote.storage.enable": "true"}
SENTENCE = (
    "You have to delete all topics with the property remote.storage.enable=true before disabling tiered storage "
    "cluster-wide; topic orders has it"
)


def test_a_broker_does_not_start_without_tiered_storage_while_a_topic_is_tiered(tmp_path: Path):
    with Broker(config=TIERING, directory=tmp_path) as broker:
        broker.create_topic("orders", config=TIERED)
    with pytest.raises(BrokerFailed) as refused, Broker(directory=tmp_path):
        pass
    assert str(refused.value) == f"the broker did not start: {SENTENCE}"
    with Broker(config=TIERING, directory=tmp_path):
        pass


@pytest.mark.parametrize(
    ("configs", "is_refused"),
    [({}, False), ({"remote.storage.enable": "false"}, False), ({"remote.storage.enable": "TRUE"}, True)],
)
def test_only_tiered_topics_refuse_a_start(configs: dict[str, str], is_refused: bool):
    image = MetadataImage("cluster")
    image.configs[TOPIC_RESOURCE, "orders"] = configs
    image.configs[4, "1"] = TIERED
    refuse_tiered_topics(BrokerConfig.load(None, TIERING), image)
    if is_refused:
        with pytest.raises(StartRefused, match="topic orders has it"):
            refuse_tiered_topics(BrokerConfig.load(None, {}), image)
    else:
        refuse_tiered_topics(BrokerConfig.load(None, {}), image)


def test_a_compacted_tiered_topic_refuses_a_start_where_it_may_not_be():
    image = MetadataImage("cluster")
    image.configs[TOPIC_RESOURCE, "orders"] = {**TIERED, "cleanup.policy": "compact"}
    refuse_tiered_topics(BrokerConfig.load(None, {**TIERING, "kpybroker.remote.compacted.enable": "true"}), image)
    with pytest.raises(StartRefused, match=r"kpybroker\.remote\.compacted\.enable must be true .* topic orders has it"):
        refuse_tiered_topics(BrokerConfig.load(None, TIERING), image)


@pytest.mark.parametrize("name", [*sorted(NEVER_TIERED), "orders"])
def test_the_topics_of_kafka_itself_are_never_tiered(name: str):
    config = BrokerConfig.load(None, TIERING)
    replicas: Any = type("Held", (), {"topic_config": staticmethod(lambda overrides: effective(overrides, config))})()
    found: TopicConfig = Replicas._config_of(replicas, name, {**TIERED, "retention.ms": "7"})
    assert (found.tier is not None) == (name == "orders")
    assert found.retention_ms == 7
