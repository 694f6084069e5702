"""The defaults of a node that has no configuration, for a single node on a laptop. Pure.

Kafka's own defaults are in the declarations; these come before them, as if they stood in server.properties.
"""

from collections.abc import Mapping
from typing import Final

# Stands for server.properties when there is none.
NO_FILE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "./data",
}
# For a node that names no quorum: it is the only one, and internal topics cannot have three replicas.
_ALONE: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def is_in_zookeeper_mode(static: Mapping[str, str]) -> bool:
    """Whether a node has its metadata in ZooKeeper, as Kafka 3.9 without roles."""
    return bool(static.get("zookeeper.connect")) and not static.get("process.roles")


def with_standalone_defaults(static: Mapping[str, str]) -> dict[str, str]:
    """Complete ``static``: node.id and broker.id are equal, and a node alone needs no quorum.

    In ZooKeeper mode ``broker.id`` may be missing: ZooKeeper then gives an id away.
    """
    configs = dict(static)
    if is_in_zookeeper_mode(configs):
        given = configs.get("broker.id", "-1")
        return {"broker.id": "-1", "process.roles": "broker", **configs, "node.id": "0" if given == "-1" else given}
    alone = not configs.get("controller.quorum.voters") and not configs.get("controller.quorum.bootstrap.servers")
    if alone:
        configs = {**_ALONE, **configs}
    if "node.id" not in configs and ("broker.id" in configs or alone):
        configs["node.id"] = configs.get("broker.id", "1")
    if "broker.id" not in configs and "node.id" in configs:
        configs["broker.id"] = configs["node.id"]
    return configs
