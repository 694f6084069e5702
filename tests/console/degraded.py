"""A node whose cluster is not well: brokers that are away, a partition that moves to one of them, and throttles."""

from console_node import ConsoleNode

from kpybroker.machines.metadata.absences import Absence
from kpybroker.machines.metadata.features import SUPPORTED
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.waiting import eventually

TOPIC, BROKER, SET = 2, 4, 0
THROTTLED = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


def register_absent(node: ConsoleNode, *brokers: int) -> None:
    """Register brokers that never serve anybody."""
    broker = node.node.broker
    assert broker is not None
    for number in brokers:
        features = [
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in SUPPORTED.items()
        ]
        request = BrokerRegistrationRequest(
            broker_id=number,
            cluster_id=node.node.image.cluster_id,
            incarnation_id=number.to_bytes(16),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
            features=features,
            rack=None,
            log_dirs=[(1000 + number).to_bytes(16)],
        )
        node.call(lambda request=request: broker.controller.send(request, lambda _: None))
        eventually(lambda number=number: number in node.node.image.brokers, f"broker {number} is registered")


def be_away(node: ConsoleNode, broker: int, seconds: float, *, is_older: bool = False) -> None:
    """Let the node have seen that a broker left some time ago."""
    role = node.node.broker
    assert role is not None
    since_ms = role.scheduler.monotonic_ms() - seconds * 1000
    node.call(lambda: role.absences._absent.__setitem__(broker, Absence(since_ms, is_older)))


def move(node: ConsoleNode, topic: str, to: int) -> None:
    """Begin to move the first partition of a topic."""
    part = ReassignablePartition(partition_index=0, replicas=[to])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[part])])
    with node.client as client:
        answer = client.call(request, 0)
    assert [each.error_code for found in answer.responses for each in found.partitions] == [0], answer
    eventually(lambda: node.node.image.topics[topic].partitions[0].adding_replicas, f"{topic} moves")


def throttle(node: ConsoleNode, kind: int, name: str, config: str, value: str) -> None:
    """Set a throttle."""
    change = AlterableConfig(name=config, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    with node.client as client:
        (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    assert answer.error_code == 0, answer
    eventually(lambda: node.node.image.configs_of(kind, name).get(config) == value, f"the throttle {config}")


def degrade(node: ConsoleNode, topic: str) -> None:
    """Have brokers 7 and 8 away, the topic on its way to 8, and throttles."""
    register_absent(node, 7, 8)
    be_away(node, 7, 300)
    move(node, topic, 8)
    throttle(node, BROKER, "", RATE, "204800")
    throttle(node, TOPIC, topic, THROTTLED, "*")
