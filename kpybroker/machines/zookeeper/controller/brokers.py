"""Brokers that come, go, come back as another process, change their addresses, or lose a directory."""

from collections.abc import Callable, Collection, Iterable, Mapping

from kpybroker.machines.zookeeper.client.operations import Get
from kpybroker.machines.zookeeper.controller.context import LiveBroker, PartitionReplica, ReplicaState
from kpybroker.machines.zookeeper.controller.reassignment import Reassignments
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps, children, read
from kpybroker.machines.zookeeper.tree import paths, requests
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire import error_codes


class Brokers:
    """Follows ``/brokers/ids`` and notices of failed directories."""

    def __init__(self, reign: ZooKeeperReign, reassignments: Reassignments, on_brokers: Callable[[], object]) -> None:
        """``on_brokers`` is called when brokers have come or gone, before anything is sent to them."""
        self._reign = reign
        self._context = reign.context
        self._reassignments = reassignments
        self._on_brokers = on_brokers

    def read(self) -> Steps[dict[int, LiveBroker]]:
        """All registered brokers, by id. Changes of the list and of each registration are watched."""
        names = yield from children(paths.BROKER_IDS, is_watched=True)
        ids = sorted(int(each) for each in names if each.isdecimal())
        znodes = yield from read([Get(paths.broker(each), is_watched=True) for each in ids])
        return {
            each: LiveBroker(Registration.decode(each, znode.data), znode.stat.czxid)
            for each, znode in zip(ids, znodes, strict=True)
            if znode is not None
        }

    def changed(self) -> Steps[None]:
        """The list of registrations has changed (``processBrokerChange``)."""
        current = yield from self.read()
        known = self._context.brokers
        came = {each: broker for each, broker in current.items() if each not in known}
        gone = sorted(each for each in known if each not in current)
        bounced = {
            each: broker for each, broker in current.items() if each in known and broker.epoch > known[each].epoch
        }
        if came:
            yield from self._start(came)
        if bounced:
            yield from self._fail(sorted(bounced))
            yield from self._start(bounced)
        if gone:
            yield from self._fail(gone)

    def modified(self, broker_id: int) -> Steps[None]:
        """The registration of a broker has other contents (``processBrokerModification``)."""
        (znode,) = yield from read([Get(paths.broker(broker_id), is_watched=True)])
        known = self._context.brokers.get(broker_id)
        if znode is None or known is None:
            return
        registration = Registration.decode(broker_id, znode.data)
        before = known.registration
        if (registration.endpoints, registration.features) != (before.endpoints, before.features):
            self._context.brokers[broker_id] = LiveBroker(registration, known.epoch)
            self._on_brokers()
            self._reign.inform_all()

    def _start(self, brokers: Mapping[int, LiveBroker]) -> Steps[None]:
        """Brokers have come (``onBrokerStartup``)."""
        context, reign = self._context, self._reign
        for broker_id in brokers:
            context.offline_directories.pop(broker_id, None)
        before = context.live_or_shutting_down_ids
        context.brokers.update(brokers)
        self._on_brokers()
        reign.inform(before)
        led = [each for each in context.leadership if not context.is_queued_for_deletion(each.topic)]
        reign.inform(brokers, led)
        replicas = context.replicas_on(brokers)
        yield from reign.change_replicas(replicas, ReplicaState.ONLINE)
        yield from reign.elect_for_offline()
        yield from self._reassignments.resume_with(brokers)
        topics = {each.partition.topic for each in replicas if context.is_queued_for_deletion(each.partition.topic)}
        if topics:
            yield from reign.deletion.resume_for(sorted(topics))

    def _fail(self, broker_ids: Collection[int]) -> Steps[None]:
        """Brokers have gone (``onBrokerFailure``)."""
        context = self._context
        context.remove_brokers(broker_ids)
        for broker_id in broker_ids:
            context.offline_directories.pop(broker_id, None)
            context.shutting_down.discard(broker_id)
        self._on_brokers()
        yield from self._reign.replicas_went_offline(context.replicas_on(broker_ids))

    def directories_failed(self) -> Steps[None]:
        """Brokers have reported failed directories: they are asked about each of their replicas."""
        names = yield from children(paths.LOG_DIR_EVENTS, is_watched=True)
        notices = [paths.child(paths.LOG_DIR_EVENTS, each) for each in sorted(names)]
        znodes = yield from read([Get(each) for each in notices])
        broker_ids = {
            requests.decode_log_dir_failure(path, znode.data)
            for path, znode in zip(notices, znodes, strict=True)
            if znode is not None
        }
        yield from self._reign.change_replicas(self._context.replicas_on(broker_ids), ReplicaState.ONLINE)
        yield from self._reign.writer.delete_if_there(notices)

    def leader_and_isr_answered(self, broker_id: int, error: int, errors: Mapping[TopicPartition, int]) -> Steps[None]:
        """A broker answered LeaderAndIsr, with an error for each partition. A storage error says that the replica is
        in a failed directory."""
        if error != error_codes.NONE or broker_id not in self._context.brokers:
            return
        before = self._context.offline_directories.get(broker_id, set())
        online = {each for each, code in errors.items() if code == error_codes.NONE}
        offline = {each for each, code in errors.items() if code == error_codes.KAFKA_STORAGE_ERROR}
        now = (before - online) | offline
        self._context.offline_directories[broker_id] = now
        lost = _in_order(errors, now - before)
        if lost:
            yield from self._reign.replicas_went_offline([PartitionReplica(each, broker_id) for each in lost])

    def stop_replica_answered(self, broker_id: int, error: int, errors: Mapping[TopicPartition, int]) -> Steps[None]:
        """A broker answered a StopReplica that deletes replicas."""
        whole = error != error_codes.NONE
        failed = [each for each, code in errors.items() if whole or code != error_codes.NONE]
        deleted = [each for each in errors if each not in failed]
        yield from self._reign.deletion.fail([PartitionReplica(each, broker_id) for each in failed])
        if deleted:
            yield from self._reign.deletion.complete([PartitionReplica(each, broker_id) for each in deleted])


def _in_order(partitions: Iterable[TopicPartition], chosen: set[TopicPartition]) -> list[TopicPartition]:
    return [each for each in partitions if each in chosen]
