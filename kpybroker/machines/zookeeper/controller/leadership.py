"""The ``state`` of partitions in ZooKeeper: read, and replaced only at the version that was read."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Get, Set
from kpybroker.machines.zookeeper.controller.context import ControllerContext, Leadership
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter, expected, failed_with, read
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch


class StateChangeFailed(Exception):
    """A partition or replica could not change its state (``StateChangeFailedException``). Others go on."""


class Read(NamedTuple):
    """The states that were read, and why others cannot be used."""

    found: dict[TopicPartition, Leadership]
    failed: dict[TopicPartition, Exception]
    newest_epoch: int = 0
    """The largest epoch of a controller that wrote one of them."""


class Updated(NamedTuple):
    """The states that were written, those that another change was faster with, and those that cannot be written."""

    finished: dict[TopicPartition, Leadership]
    retried: list[TopicPartition]
    failed: dict[TopicPartition, Exception]


def read_states(context: ControllerContext, partitions: Iterable[TopicPartition]) -> Steps[Read]:
    """The states in ZooKeeper. One that a later controller wrote is a failure."""
    wanted = list(partitions)
    znodes = yield from read([Get(state_path(each)) for each in wanted])
    found: dict[TopicPartition, Leadership] = {}
    failed: dict[TopicPartition, Exception] = {}
    newest_epoch = 0
    for partition, znode in zip(wanted, znodes, strict=True):
        if znode is None or not znode.data:
            failed[partition] = StateChangeFailed(f"{name(partition)} has no state in ZooKeeper")
            continue
        state = LeaderIsrAndControllerEpoch.decode(state_path(partition), znode.data)
        newest_epoch = max(newest_epoch, state.controller_epoch)
        if state.controller_epoch > context.epoch:
            failed[partition] = StateChangeFailed(
                f"{name(partition)} was written by the controller of epoch {state.controller_epoch}, "
                f"which is later than {context.epoch}"
            )
        else:
            found[partition] = Leadership(state, znode.stat.version)
    return Read(found, failed, newest_epoch)


def write_states(writer: ZnodeWriter, states: Mapping[TopicPartition, Leadership]) -> Steps[Updated]:
    """Replace states. ``partition_epoch`` of each is the version that was read; the result has the version since."""
    operations = [Set(state_path(each), state.encode(), epoch) for each, (state, epoch) in states.items()]
    results = yield from writer.write(operations)
    updated = Updated({}, [], {})
    for (partition, (state, _)), result in zip(states.items(), results, strict=True):
        if failed_with(result, error_codes.BAD_VERSION):
            updated.retried.append(partition)
        elif failed_with(result, error_codes.NO_NODE):
            updated.failed[partition] = StateChangeFailed(f"{name(partition)} has no state in ZooKeeper")
        else:
            stat = expected(result, state_path(partition))
            updated.finished[partition] = Leadership(state, stat.version)
    return updated


def state_path(partition: TopicPartition) -> str:
    """The path of a partition's state."""
    return paths.partition_state(partition.topic, partition.partition)


def name(partition: TopicPartition) -> str:
    """The partition as Kafka writes it: topic-partition."""
    return f"{partition.topic}-{partition.partition}"
