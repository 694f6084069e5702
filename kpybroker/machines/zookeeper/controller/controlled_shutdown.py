"""ControlledShutdown: a broker is about to stop, so others take over what it leads (``doControlledShutdown``)."""

from typing import Final

from kpybroker.machines.zookeeper.controller.context import PartitionReplica, ReplicaState
from kpybroker.machines.zookeeper.controller.elections import elect_for_shutdown
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire import error_codes

UNKNOWN_EPOCH: Final = -1


def shut_down(reign: ZooKeeperReign, broker_id: int, broker_epoch: int) -> Steps[list[TopicPartition] | int]:
    """Move leaders away from a broker, and take it out of ISRs. Returns what it still leads, or an error."""
    context = reign.context
    known = context.brokers.get(broker_id)
    if known is not None and broker_epoch != UNKNOWN_EPOCH and broker_epoch < known.epoch:
        return error_codes.STALE_BROKER_EPOCH
    if known is None:
        return error_codes.BROKER_NOT_AVAILABLE
    context.shutting_down.add(broker_id)
    concerned = [
        each
        for each in context.all_partitions()
        if broker_id in context.replicas(each) and _can_move(reign, each) and each in context.leadership
    ]
    led = [each for each in concerned if context.leadership[each].state.leader == broker_id]
    followed = [each for each in concerned if each not in set(led)]
    yield from reign.bring_online(led, elect_for_shutdown)
    for partition in followed:
        reign.batch.stop_replica(broker_id, partition, deletes=False)
    reign.end_batch()
    yield from reign.change_replicas([PartitionReplica(each, broker_id) for each in followed], ReplicaState.OFFLINE)
    return [each for each in context.partitions_led_by(broker_id) if _can_move(reign, each)]


def _can_move(reign: ZooKeeperReign, partition: TopicPartition) -> bool:
    context = reign.context
    return len(context.replicas(partition)) > 1 and not context.is_queued_for_deletion(partition.topic)
