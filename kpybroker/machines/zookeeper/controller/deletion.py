"""The deletion of topics, replica by replica (Kafka's ``TopicDeletionManager``).

A topic with a replica on a broker that is away, or with a reassignment under way, waits. Its znodes and its marker are
deleted last, so that a controller that takes over finds what is left to do.
"""

from collections.abc import Callable, Iterable

from kpybroker.machines.zookeeper.controller.batch import BrokerRequestBatch
from kpybroker.machines.zookeeper.controller.context import (
    ControllerContext,
    PartitionReplica,
    PartitionState,
    ReplicaState,
)
from kpybroker.machines.zookeeper.controller.partition_states import PartitionStates
from kpybroker.machines.zookeeper.controller.replica_states import ReplicaStates
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter
from kpybroker.machines.zookeeper.tree import configs, paths


class TopicDeletions:
    """Deletes topics that are queued. ``end_batch`` sends what was collected."""

    def __init__(
        self,
        context: ControllerContext,
        writer: ZnodeWriter,
        batch: BrokerRequestBatch,
        replicas: ReplicaStates,
        partitions: PartitionStates,
        end_batch: Callable[[], None],
    ) -> None:
        self._context = context
        self._writer = writer
        self._batch = batch
        self._replicas = replicas
        self._partitions = partitions
        self._end_batch = end_batch

    def begin_reign(self, queued: Iterable[str], ineligible: Iterable[str]) -> Steps[None]:
        """Go on with the topics whose markers were found. Where deletion is switched off, the markers are removed."""
        queued = list(queued)
        if self._context.delete_topic_enable:
            self._context.queue_deletion(queued)
            self._context.ineligible.update(each for each in ineligible if each in self._context.to_be_deleted)
        else:
            yield from self._writer.delete_if_there(paths.delete_topic(each) for each in queued)

    def enqueue(self, topics: Iterable[str]) -> Steps[None]:
        """Delete topics."""
        if self._context.delete_topic_enable:
            self._context.queue_deletion(topics)
            yield from self.resume()

    def resume_for(self, topics: Iterable[str]) -> Steps[None]:
        """Topics may be deletable now: a broker is back, or a reassignment has ended."""
        if not self._context.delete_topic_enable:
            return
        resumed = [each for each in topics if each in self._context.to_be_deleted]
        if resumed:
            self._context.ineligible.difference_update(resumed)
            yield from self.resume()

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """The deletion of topics has to wait."""
        if self._context.delete_topic_enable:
            self._context.ineligible.update(each for each in topics if each in self._context.to_be_deleted)

    def fail(self, replicas: Iterable[PartitionReplica]) -> Steps[None]:
        """Replicas could not be deleted: their broker is away, or it answered with an error."""
        if not self._context.delete_topic_enable:
            return
        failed = [each for each in replicas if each.partition.topic in self._context.to_be_deleted]
        if failed:
            yield from self._change(failed, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible(each.partition.topic for each in failed)
            yield from self.resume()

    def complete(self, replicas: Iterable[PartitionReplica]) -> Steps[None]:
        """Brokers have deleted replicas."""
        deleted = [each for each in replicas if each.partition.topic in self._context.to_be_deleted]
        yield from self._change(deleted, ReplicaState.DELETION_SUCCESSFUL)
        yield from self.resume()

    def resume(self) -> Steps[None]:
        """Do for every queued topic what can be done now."""
        retried, deletable = [], []
        for topic in list(self._context.to_be_deleted):
            if self._context.all_replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL):
                yield from self._finish(topic)
            elif not self._context.any_replica_in(
                topic, ReplicaState.DELETION_STARTED
            ) and self._context.any_replica_in(topic, ReplicaState.DELETION_INELIGIBLE):
                retried.append(topic)
            if self._is_deletable(topic):
                deletable.append(topic)
        if retried:
            failed = [
                each for topic in retried for each in self._context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
            ]
            yield from self._change(failed, ReplicaState.OFFLINE)
        if deletable:
            yield from self._begin(deletable)

    def _is_deletable(self, topic: str) -> bool:
        context = self._context
        return (
            context.is_queued_for_deletion(topic)
            and topic not in context.ineligible
            and not context.is_deletion_in_progress(topic)
        )

    def _finish(self, topic: str) -> Steps[None]:
        """Every replica is gone: so are the topic's znodes, the marker last."""
        replicas = self._context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
        yield from self._change(replicas, ReplicaState.NON_EXISTENT)
        yield from self._writer.delete_tree(paths.topic(topic))
        yield from self._writer.delete_if_there([configs.ConfigEntity(configs.TOPICS, topic).path])
        yield from self._writer.delete_if_there([paths.delete_topic(topic)])
        self._context.remove_topic(topic)

    def _begin(self, topics: list[str]) -> Steps[None]:
        unseen = [each for each in topics if each not in self._context.deletion_started]
        gone = [partition for topic in unseen for partition in self._context.partitions_of(topic)]
        self._partitions.change(gone, PartitionState.OFFLINE)
        self._partitions.change(gone, PartitionState.NON_EXISTENT)
        self._context.begin_deletion(unseen)
        every = [partition for topic in topics for partition in self._context.partitions_of(topic)]
        self._batch.update_metadata(self._context.live_or_shutting_down_ids, every)
        self._end_batch()
        yield from self._delete_replicas(topics)

    def _delete_replicas(self, topics: list[str]) -> Steps[None]:
        dead: list[PartitionReplica] = []
        alive: list[PartitionReplica] = []
        waiting = []
        for topic in topics:
            everybody = self._context.replicas_of(self._context.partitions_of(topic))
            present = [each for each in everybody if self._context.is_online(each.broker_id, each.partition)]
            absent = [each for each in everybody if each not in present]
            deleted = set(self._context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL))
            dead += absent
            alive += [each for each in present if each not in deleted]
            if absent:
                waiting.append(topic)
        yield from self._change(dead, ReplicaState.DELETION_INELIGIBLE)
        yield from self._change(alive, ReplicaState.OFFLINE)
        yield from self._change(alive, ReplicaState.DELETION_STARTED)
        self.mark_ineligible(waiting)

    def _change(self, replicas: list[PartitionReplica], to: ReplicaState) -> Steps[None]:
        yield from self._replicas.change(replicas, to)
        self._end_batch()
