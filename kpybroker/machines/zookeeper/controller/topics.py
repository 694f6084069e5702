"""Topics that are created, grow, or are to be deleted."""

from collections.abc import Callable, Iterable, Mapping

from kpybroker.machines.zookeeper.client.operations import Get, Set
from kpybroker.machines.zookeeper.controller.assignment import ReplicaAssignment
from kpybroker.machines.zookeeper.controller.context import PartitionState, ReplicaState
from kpybroker.machines.zookeeper.controller.reassignment import topic_znode
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps, children, read
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import TopicAssignment
from kpywire import uuid

RandomBytes = Callable[[int], bytes]


class ZooKeeperTopics:
    """Follows ``/brokers/topics``, the assignment of each topic, and the markers of topics to be deleted."""

    def __init__(self, reign: ZooKeeperReign, random_bytes: RandomBytes) -> None:
        """``random_bytes`` gives the ids of topics that an old tool created without one."""
        self._reign = reign
        self._context = reign.context
        self._random_bytes = random_bytes

    def load(self) -> Steps[None]:
        """Read all topics as a reign begins."""
        names = yield from children(paths.TOPICS, is_watched=True)
        for topic in (yield from self._read(names)).values():
            self._take_over(topic)
        self._context.reassigned.update(
            dict.fromkeys(each for each in self._context.all_partitions() if self._is_reassigned(each))
        )

    def changed(self) -> Steps[None]:
        """The list of topics has changed (``processTopicChange``)."""
        names = yield from children(paths.TOPICS, is_watched=True)
        context = self._context
        created = yield from self._read([each for each in names if each not in context.topics])
        for topic in [each for each in context.topics if each not in set(names)]:
            context.remove_topic(topic)
        for each in created.values():
            self._take_over(each)
        yield from self._create_partitions([each for topic in created for each in context.partitions_of(topic)])

    def modified(self, topic: str) -> Steps[None]:
        """The assignment of a topic has changed: it may have more partitions (``processPartitionModifications``)."""
        found = (yield from self._read([topic])).get(topic)
        context = self._context
        if found is None or topic not in context.topics:
            return
        known = context.topics[topic]
        added = {each: assignment for each, assignment in assignments_of(found).items() if each not in known}
        if not added:
            return
        if context.is_queued_for_deletion(topic):
            # as with Kafka, those partitions stay that were started once
            started = yield from children(f"{paths.topic(topic)}/partitions")
            kept = {each: assignment for each, assignment in known.items() if str(each) in started}
            before = topic_znode(topic, context.topic_ids.get(topic), kept)
            yield from self._reign.writer.write_all([Set(paths.topic(topic), before.encode())])
            return
        known.update(added)
        yield from self._create_partitions([TopicPartition(topic, each) for each in added])

    def deletions(self) -> Steps[list[str]]:
        """The topics with a marker, in order. New markers are watched."""
        names = yield from children(paths.DELETE_TOPICS, is_watched=True)
        return sorted(names)

    def deletion_asked(self) -> Steps[None]:
        """Topics are to be deleted (``processTopicDeletion``). A marker of an unknown topic is removed."""
        marked = yield from self.deletions()
        context, reign = self._context, self._reign
        yield from reign.writer.delete_if_there(
            paths.delete_topic(each) for each in marked if each not in context.topics
        )
        known = [each for each in marked if each in context.topics]
        if not context.delete_topic_enable:
            yield from reign.writer.delete_if_there(paths.delete_topic(each) for each in known)
        elif known:
            # Kafka holds back topics that are being reassigned only when a reign begins
            yield from reign.deletion.enqueue(known)

    def waiting_for_deletion(self) -> list[str]:
        """Topics that cannot be deleted now: a replica is away, or a partition is being reassigned."""
        context = self._context
        moving = {each.topic for each in context.reassigned}
        away = {
            partition.topic
            for partition, broker_id in context.replicas_of(context.all_partitions())
            if not context.is_online(broker_id, partition)
        }
        return [each for each in context.topics if each in moving or each in away]

    def _create_partitions(self, partitions: list[TopicPartition]) -> Steps[None]:
        """New partitions get a leader (``onNewPartitionCreation``)."""
        if not partitions:
            return
        reign = self._reign
        reign.partitions.change(partitions, PartitionState.NEW)
        replicas = self._context.replicas_of(partitions)
        yield from reign.change_replicas(replicas, ReplicaState.NEW)
        yield from reign.bring_online(partitions)
        yield from reign.change_replicas(replicas, ReplicaState.ONLINE)

    def _read(self, names: Iterable[str]) -> Steps[dict[str, TopicAssignment]]:
        """The assignments of topics, whose changes are watched. A topic without an id is given one."""
        names = list(names)
        znodes = yield from read([Get(paths.topic(each), is_watched=True) for each in names])
        found = {
            each: TopicAssignment.decode(each, znode.data)
            for each, znode in zip(names, znodes, strict=True)
            if znode is not None
        }
        return (yield from self._with_ids(found))

    def _with_ids(self, topics: Mapping[str, TopicAssignment]) -> Steps[dict[str, TopicAssignment]]:
        complete: dict[str, TopicAssignment] = {}
        writes = []
        for name, topic in topics.items():
            if topic.topic_id is None:
                # an old tool may drop the id of a topic that has one: it keeps it
                topic_id = self._context.topic_ids.get(name) or self._new_id()
                topic = topic_znode(name, topic_id, assignments_of(topic))
                writes.append(Set(paths.topic(name), topic.encode()))
            complete[name] = topic
        yield from self._reign.writer.write_all(writes)
        return complete

    def _new_id(self) -> bytes:
        while True:
            topic_id = uuid.random_uuid(self._random_bytes(uuid.UUID_BYTES))
            if uuid.usable(topic_id) and topic_id not in self._context.topic_ids.values():
                return topic_id

    def _take_over(self, topic: TopicAssignment) -> None:
        self._context.topics[topic.name] = assignments_of(topic)
        if topic.topic_id is not None:
            self._context.topic_ids[topic.name] = topic.topic_id

    def _is_reassigned(self, partition: TopicPartition) -> bool:
        return self._context.assignment(partition).is_being_reassigned


def assignments_of(topic: TopicAssignment) -> dict[int, ReplicaAssignment]:
    """The assignment of each partition of a topic."""
    return {
        each: ReplicaAssignment(replicas, topic.adding.get(each, ()), topic.removing.get(each, ()))
        for each, replicas in topic.replicas.items()
    }
