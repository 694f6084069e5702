"""The states of replicas, and what each change tells brokers (Kafka's ``ZkReplicaStateMachine``).

    NonExistent -> New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful -> NonExistent
                                        DeletionStarted, Offline -> DeletionIneligible -> Offline, Online

A change that is not among these is logged and skipped; the other replicas go on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.zookeeper.controller.assignment import without
from kpybroker.machines.zookeeper.controller.batch import BrokerRequestBatch
from kpybroker.machines.zookeeper.controller.context import (
    ControllerContext,
    Leadership,
    PartitionReplica,
    ReplicaState,
)
from kpybroker.machines.zookeeper.controller.leadership import name, read_states, write_states
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

_BEFORE: Final = {
    ReplicaState.NEW: {ReplicaState.NON_EXISTENT},
    ReplicaState.ONLINE: {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    },
    ReplicaState.OFFLINE: {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    },
    ReplicaState.DELETION_STARTED: {ReplicaState.OFFLINE},
    ReplicaState.DELETION_SUCCESSFUL: {ReplicaState.DELETION_STARTED},
    ReplicaState.DELETION_INELIGIBLE: {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED},
    ReplicaState.NON_EXISTENT: {ReplicaState.DELETION_SUCCESSFUL},
}


class ReplicaStates:
    """Changes the states of replicas. ``log`` gets lines about changes that cannot be made."""

    def __init__(
        self, context: ControllerContext, writer: ZnodeWriter, batch: BrokerRequestBatch, log: Callable[[str], object]
    ) -> None:
        self._context = context
        self._writer = writer
        self._batch = batch
        self._log = log

    def initialize(self) -> None:
        """The states of all replicas as a reign begins: online, or not fit for a deletion until they are."""
        for replica in self._context.replicas_of(self._context.all_partitions()):
            online = self._context.is_online(replica.broker_id, replica.partition)
            self._context.replica_states[replica] = ReplicaState.ONLINE if online else ReplicaState.DELETION_INELIGIBLE

    def change(self, replicas: Iterable[PartitionReplica], to: ReplicaState) -> Steps[None]:
        """Change the state of replicas. Requests go into the batch."""
        in_order = sorted(replicas, key=lambda each: each.broker_id)
        for broker_id, group in groupby(in_order, key=lambda each: each.broker_id):
            valid = [each for each in group if self._may_change(each, to)]
            yield from self._change(broker_id, valid, to)

    def _may_change(self, replica: PartitionReplica, to: ReplicaState) -> bool:
        before = self._context.replica_states.setdefault(replica, ReplicaState.NON_EXISTENT)
        if before in _BEFORE[to]:
            return True
        self._log(
            f"replica {replica.broker_id} of {name(replica.partition)} cannot change from {before.value} to {to.value}"
        )
        return False

    def _change(self, broker_id: int, replicas: Sequence[PartitionReplica], to: ReplicaState) -> Steps[None]:
        match to:
            case ReplicaState.NEW:
                self._begin(replicas)
            case ReplicaState.ONLINE:
                self._bring_online(replicas)
            case ReplicaState.OFFLINE:
                yield from self._take_offline(broker_id, replicas)
            case ReplicaState.DELETION_STARTED:
                for replica in replicas:
                    self._context.replica_states[replica] = to
                    self._batch.stop_replica(broker_id, replica.partition, deletes=True)
            case ReplicaState.NON_EXISTENT:
                for partition, _ in replicas:
                    shorter = self._context.assignment(partition).without_replica(broker_id)
                    self._context.set_assignment(partition, shorter)
                    self._context.replica_states.pop(PartitionReplica(partition, broker_id))
            case _:
                self._context.replica_states.update(dict.fromkeys(replicas, to))

    def _begin(self, replicas: Iterable[PartitionReplica]) -> None:
        for replica in replicas:
            partition, broker_id = replica
            leadership = self._context.leadership.get(partition)
            if leadership is not None and leadership.state.leader == broker_id:
                self._log(f"replica {broker_id} of {name(partition)} cannot begin: it is the leader")
                continue
            if leadership is not None:
                self._batch.leader_and_isr([broker_id], partition, leadership, is_new=True)
            self._context.replica_states[replica] = ReplicaState.NEW

    def _bring_online(self, replicas: Iterable[PartitionReplica]) -> None:
        for replica in replicas:
            partition, broker_id = replica
            if self._context.replica_states[replica] is ReplicaState.NEW:
                assignment = self._context.assignment(partition)
                if broker_id not in assignment.replicas:
                    longer = assignment._replace(replicas=(*assignment.replicas, broker_id))
                    self._context.set_assignment(partition, longer)
            else:
                leadership = self._context.leadership.get(partition)
                if leadership is not None:
                    self._batch.leader_and_isr([broker_id], partition, leadership, is_new=False)
            self._context.replica_states[replica] = ReplicaState.ONLINE

    def _take_offline(self, broker_id: int, replicas: Sequence[PartitionReplica]) -> Steps[None]:
        for partition, _ in replicas:
            self._batch.stop_replica(broker_id, partition, deletes=False)
        known = [each.partition for each in replicas if each.partition in self._context.leadership]
        for partition, leadership in (yield from self._remove_from_isr(broker_id, known)).items():
            if not self._context.is_queued_for_deletion(partition.topic):
                others = without(self._context.replicas(partition), [broker_id])
                self._batch.leader_and_isr(others, partition, leadership, is_new=False)
            self._context.replica_states[PartitionReplica(partition, broker_id)] = ReplicaState.OFFLINE
        for replica in replicas:
            if replica.partition not in known:
                self._context.replica_states[replica] = ReplicaState.OFFLINE
                everybody = self._context.live_or_shutting_down_ids
                self._batch.update_metadata(everybody, [replica.partition])

    def _remove_from_isr(
        self, broker_id: int, partitions: Iterable[TopicPartition]
    ) -> Steps[dict[TopicPartition, Leadership]]:
        remaining = list(partitions)
        results: dict[TopicPartition, Leadership] = {}
        while remaining:
            current = yield from read_states(self._context, remaining)
            smaller = {
                partition: Leadership(self._without(broker_id, state), epoch)
                for partition, (state, epoch) in current.found.items()
                if broker_id in state.isr
            }
            updated = yield from write_states(self._writer, smaller)
            # Kafka sends these with its own epoch, too, although the znode keeps that of its writer
            unchanged = {
                partition: Leadership(replace(state, controller_epoch=self._context.epoch), epoch)
                for partition, (state, epoch) in current.found.items()
                if partition not in smaller
            }
            results |= unchanged | updated.finished
            for partition, error in (current.failed | updated.failed).items():
                if not self._context.is_queued_for_deletion(partition.topic):
                    self._log(f"replica {broker_id} of {name(partition)} stays in the ISR: {error}")
            remaining = updated.retried
        self._context.leadership.update(results)
        return results

    def _without(self, broker_id: int, state: LeaderIsrAndControllerEpoch) -> LeaderIsrAndControllerEpoch:
        """The state without a replica. The last one stays in the ISR, but it does not lead."""
        return LeaderIsrAndControllerEpoch(
            leader=NO_LEADER if state.leader == broker_id else state.leader,
            leader_epoch=state.leader_epoch + 1,
            isr=state.isr if len(state.isr) == 1 else without(state.isr, [broker_id]),
            controller_epoch=self._context.epoch,
            recovery=state.recovery,
        )
