"""AlterPartition: a leader changes the ISR of a partition (KIP-497; Kafka's ``tryProcessAlterPartition``)."""

from collections.abc import Mapping

from kpybroker.machines.metadata.topic import RECOVERING
from kpybroker.machines.zookeeper.controller.assignment import BrokerIds
from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.leadership import read_states, write_states
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch
from kpywire import error_codes

Outcome = Leadership | int
"""The state since the change, or Kafka's error."""


def broker_error(reign: ZooKeeperReign, broker_id: int, broker_epoch: int) -> int:
    """The error for a broker whose registration is another one, or gone."""
    known = reign.context.brokers.get(broker_id)
    return error_codes.NONE if known is not None and known.epoch == broker_epoch else error_codes.STALE_BROKER_EPOCH


def alter_partition(
    reign: ZooKeeperReign, wanted: Mapping[TopicPartition, Leadership]
) -> Steps[dict[TopicPartition, Outcome]]:
    """Change the ISR of partitions. Each has an outcome of its own. All brokers learn how they are now, changed or not;
    the replicas get no LeaderAndIsr."""
    outcomes: dict[TopicPartition, Outcome] = {}
    changes: dict[TopicPartition, Leadership] = {}
    for partition, change in wanted.items():
        outcome = _judge(reign, partition, change)
        if outcome is None:
            changes[partition] = Leadership(_own(reign, change.state), change.partition_epoch)
        else:
            outcomes[partition] = outcome
    updated = yield from write_states(reign.writer, changes)
    outcomes |= updated.finished
    outcomes |= dict.fromkeys(updated.failed, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    reign.context.leadership.update(updated.finished)
    if updated.retried:
        outcomes |= yield from _found(reign, {each: changes[each] for each in updated.retried})
    reign.inform_all(wanted)
    return {each: outcomes[each] for each in wanted}


def _found(reign: ZooKeeperReign, wanted: Mapping[TopicPartition, Leadership]) -> Steps[dict[TopicPartition, Outcome]]:
    """The outcomes where the version was another one. A state that is as it was wanted was written by an attempt whose
    answer was lost. Kafka does not look, and refuses every later change, too (KAFKA-2729)."""
    current = yield from read_states(reign.context, wanted)
    reign.context.leadership.update(current.found)
    outcomes: dict[TopicPartition, Outcome] = {}
    for partition, change in wanted.items():
        found = current.found.get(partition)
        if found is not None and found.state == change.state:
            outcomes[partition] = found
        else:
            outcomes[partition] = error_codes.INVALID_UPDATE_VERSION
    return outcomes


def _judge(reign: ZooKeeperReign, partition: TopicPartition, change: Leadership) -> Outcome | None:
    """The outcome of a change that is not written. The order of the checks is Kafka's."""
    known = reign.context.leadership.get(partition)
    if known is None:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    (current, epoch), (state, wanted_epoch) = known, change
    if wanted_epoch > epoch or state.leader_epoch > current.leader_epoch:
        return error_codes.NOT_CONTROLLER
    if state.leader_epoch < current.leader_epoch:
        return error_codes.FENCED_LEADER_EPOCH
    if _same(current, state):
        return known
    if wanted_epoch < epoch:
        return error_codes.INVALID_UPDATE_VERSION
    if state.recovery == RECOVERING and (len(state.isr) > 1 or current.recovery != RECOVERING):
        return error_codes.INVALID_REQUEST
    if not _all_live(reign, state.isr):
        return error_codes.INELIGIBLE_REPLICA
    return None


def _same(current: LeaderIsrAndControllerEpoch, state: LeaderIsrAndControllerEpoch) -> bool:
    """Whether nothing would change (``equalsAllowStalePartitionEpoch``)."""
    return (current.leader, current.isr, current.recovery) == (state.leader, state.isr, state.recovery)


def _all_live(reign: ZooKeeperReign, isr: BrokerIds) -> bool:
    return set(isr) <= set(reign.context.live_ids)


def _own(reign: ZooKeeperReign, state: LeaderIsrAndControllerEpoch) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, state.isr, reign.context.epoch, state.recovery)
