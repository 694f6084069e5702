"""Reassignments: partitions that move to other brokers while they are used (KIP-455, ``onPartitionReassignment``).

The topic's znode has the new and the old replicas until all new ones are in the ISR. It is the last that is changed, so
a controller that takes over goes on where this one stopped.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from kpybroker.machines.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.machines.zookeeper.client.operations import Create, Exists, Get, Set
from kpybroker.machines.zookeeper.controller.assignment import BrokerIds, ReplicaAssignment, without
from kpybroker.machines.zookeeper.controller.context import Leadership, PartitionReplica, ReplicaState
from kpybroker.machines.zookeeper.controller.elections import elect_reassigned
from kpybroker.machines.zookeeper.controller.leadership import name, read_states, write_states
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps, expected, failed_with, read
from kpybroker.machines.zookeeper.tree import paths, requests
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire import error_codes

Errors = dict[TopicPartition, int]


class Reassignments:
    """Begins, goes on with, and ends reassignments."""

    def __init__(self, reign: ZooKeeperReign) -> None:
        self._reign = reign
        self._context = reign.context

    def alter(self, targets: Mapping[TopicPartition, BrokerIds | None]) -> Steps[Errors]:
        """Reassign partitions; None as the target cancels (AlterPartitionReassignments). The errors are Kafka's."""
        errors: Errors = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            if target is not None and not self._is_valid(partition, target):
                errors[partition] = error_codes.INVALID_REPLICA_ASSIGNMENT
                continue
            assignment = self._built(partition, target)
            if assignment is None:
                errors[partition] = error_codes.NO_REASSIGNMENT_IN_PROGRESS
            else:
                wanted[partition] = assignment
        yield from self._trim_znode(lambda partition, _: partition in wanted)
        return errors | (yield from self._begin(wanted))

    def begin_reign(self) -> Steps[None]:
        """Go on with those in topics' znodes, and with those that an old tool asked for. As in Kafka, a topic that is
        queued for deletion waits for the reassignments that had begun."""
        handled = yield from self.requested()
        yield from self._resume([each for each in self._context.reassigned if each not in handled])

    def requested(self) -> Steps[Collection[TopicPartition]]:
        """An old tool wrote ``/admin/reassign_partitions``. The partitions that it names are returned."""
        (there,) = yield from read([Exists(paths.REASSIGN_PARTITIONS, is_watched=True)])
        if there is None:
            return []
        (znode,) = yield from read([Get(paths.REASSIGN_PARTITIONS)])
        targets = requests.decode_reassignments(znode.data) if znode is not None else {}
        wanted = {each: self._built(each, target) for each, target in targets.items()}
        errors = yield from self._begin({each: found for each, found in wanted.items() if found is not None})
        failed = {each for each, code in errors.items() if code != error_codes.NONE}
        if failed:
            yield from self._trim_znode(lambda partition, _: partition in failed)
        return list(wanted)

    def resume_with(self, broker_ids: Iterable[int]) -> Steps[None]:
        """Brokers have come: reassignments to them go on."""
        came = frozenset(broker_ids)
        yield from self._resume(
            [each for each in self._context.reassigned if came.intersection(self._context.assignment(each).target)]
        )

    def complete_if_done(self, partition: TopicPartition) -> Steps[None]:
        """The ISR of a partition has changed: its reassignment may end."""
        if partition not in self._context.reassigned:
            return
        assignment = self._context.assignment(partition)
        if (yield from self._is_complete(partition, assignment)):
            yield from self._go_on(partition, assignment)

    def _is_valid(self, partition: TopicPartition, target: BrokerIds) -> bool:
        if not target or min(target) < 0 or len(set(target)) != len(target):
            return False
        adding = self._context.assignment(partition).reassign_to(target).adding
        return set(adding) <= set(self._context.live_ids)

    def _built(self, partition: TopicPartition, target: BrokerIds | None) -> ReplicaAssignment | None:
        current = self._context.assignment(partition)
        if target is not None:
            return current.reassign_to(target)
        return current.reassign_to(current.origin) if current.is_being_reassigned else None

    def _begin(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[Errors]:
        errors: Errors = {}
        for partition, assignment in wanted.items():
            known = bool(self._context.replicas(partition))
            if not known or self._context.is_queued_for_deletion(partition.topic):
                errors[partition] = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            else:
                yield from self._go_on(partition, assignment)
                errors[partition] = error_codes.NONE
        return errors

    def _resume(self, partitions: Collection[TopicPartition]) -> Steps[None]:
        for partition in partitions:
            yield from self._go_on(partition, self._context.assignment(partition))

    def _go_on(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        self._reign.deletion.mark_ineligible([partition.topic])
        yield from self._note(partition, assignment)
        if (yield from self._is_complete(partition, assignment)):
            yield from self._finish(partition, assignment)
        else:
            yield from self._tell_replicas(partition, assignment)
            for broker_id in assignment.adding:
                yield from self._change(partition, (broker_id,), ReplicaState.NEW)

    def _note(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        current = self._context.assignment(partition)
        if current != assignment:
            yield from self._write_assignment(partition, assignment)
            self._context.set_assignment(partition, assignment)
            unneeded = without(current.replicas, assignment.replicas)
            if unneeded:
                yield from self._stop(partition, unneeded)
        self._context.reassigned[partition] = None

    def _finish(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        yield from self._change(partition, assignment.adding, ReplicaState.ONLINE)
        completed = ReplicaAssignment(assignment.target)
        self._context.set_assignment(partition, completed)
        yield from self._move_leader(partition, completed)
        yield from self._stop(partition, assignment.removing)
        yield from self._write_assignment(partition, completed)
        yield from self._trim_znode(lambda each, target: each == partition and target == completed.replicas)
        self._context.reassigned.pop(partition, None)
        self._reign.inform_all([partition])
        yield from self._reign.deletion.resume_for([partition.topic])

    def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[bool]:
        if not assignment.is_being_reassigned:
            return True
        current = yield from read_states(self._context, [partition])
        found = current.found.get(partition)
        return found is not None and set(assignment.target) <= set(found.state.isr)

    def _move_leader(self, partition: TopicPartition, completed: ReplicaAssignment) -> Steps[None]:
        known = self._context.leadership.get(partition)
        if known is None:
            # none of its replicas was ever alive, so it has no state: Kafka fails here, and forgets the partition
            yield from self._reign.elect_for_offline([partition])
            return
        leader = known.state.leader
        if leader in completed.replicas and self._context.is_online(leader, partition):
            yield from self._tell_replicas(partition, completed)
        else:
            yield from self._reign.bring_online([partition], elect_reassigned)

    def _tell_replicas(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        """Send the next leader epoch, with the same leader and ISR, to all replicas. Added ones choose a directory."""
        leadership = yield from self._raise_epoch(partition)
        if leadership is None:
            self._reign.log(f"{name(partition)} has no state, so its replicas cannot learn of the reassignment")
            return
        self._reign.batch.leader_and_isr(assignment.origin, partition, leadership, is_new=False)
        self._reign.batch.leader_and_isr(assignment.adding, partition, leadership, is_new=True)
        self._reign.end_batch()

    def _raise_epoch(self, partition: TopicPartition) -> Steps[Leadership | None]:
        while True:
            current = yield from read_states(self._context, [partition])
            found = current.found.get(partition)
            if found is None:
                return None
            state, partition_epoch = found
            later = LeaderIsrAndControllerEpoch(
                state.leader, state.leader_epoch + 1, state.isr, self._context.epoch, state.recovery
            )
            updated = yield from write_states(self._reign.writer, {partition: Leadership(later, partition_epoch)})
            if not updated.retried:
                self._context.leadership.update(updated.finished)
                return updated.finished.get(partition)

    def _stop(self, partition: TopicPartition, broker_ids: BrokerIds) -> Steps[None]:
        steps = (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        )
        for state in steps:
            yield from self._change(partition, broker_ids, state)

    def _change(self, partition: TopicPartition, broker_ids: BrokerIds, to: ReplicaState) -> Steps[None]:
        yield from self._reign.change_replicas([PartitionReplica(partition, each) for each in broker_ids], to)

    def _write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        topic = partition.topic
        assignments = self._context.topics[topic] | {partition.partition: assignment}
        yield from self._reign.writer.write_all(
            [Set(paths.topic(topic), topic_znode(topic, self._context.topic_ids.get(topic), assignments).encode())]
        )

    def _trim_znode(self, is_done: Callable[[TopicPartition, BrokerIds], bool]) -> Steps[None]:
        """Take partitions out of ``/admin/reassign_partitions``; without any it is deleted."""
        (znode,) = yield from read([Get(paths.REASSIGN_PARTITIONS, is_watched=True)])
        if znode is None:
            return
        targets = requests.decode_reassignments(znode.data)
        rest = {each: target for each, target in targets.items() if not is_done(each, target)}
        if len(rest) == len(targets):
            return
        if not rest:
            yield from self._reign.writer.delete_if_there([paths.REASSIGN_PARTITIONS])
            return
        content = requests.encode_reassignments(rest)
        (result,) = yield from self._reign.writer.write([Set(paths.REASSIGN_PARTITIONS, content)])
        if failed_with(result, zookeeper_errors.NO_NODE):
            yield from self._reign.writer.write_all(
                [Create(paths.REASSIGN_PARTITIONS, content, self._reign.writer.acl_of(paths.REASSIGN_PARTITIONS))]
            )
        else:
            expected(result, paths.REASSIGN_PARTITIONS)


def topic_znode(topic: str, topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """The content of a topic's znode."""
    return TopicAssignment(
        name=topic,
        replicas={each: assignment.replicas for each, assignment in assignments.items()},
        topic_id=topic_id,
        adding={each: assignment.adding for each, assignment in assignments.items() if assignment.adding},
        removing={each: assignment.removing for each, assignment in assignments.items() if assignment.removing},
    )
