"""The controller of a cluster: elections, and one event after the other while it reigns (``KafkaController``)."""

from collections.abc import Callable, Mapping
from typing import Any

from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Get, Set, ZnodeAcl
from kpybroker.machines.zookeeper.controller import election, events, features
from kpybroker.machines.zookeeper.controller.alter_partition import Outcome, alter_partition, broker_error
from kpybroker.machines.zookeeper.controller.assignment import BrokerIds, ReplicaAssignment
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest
from kpybroker.machines.zookeeper.controller.brokers import Brokers
from kpybroker.machines.zookeeper.controller.context import Leadership, ReplicaState
from kpybroker.machines.zookeeper.controller.controlled_shutdown import shut_down
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType, LeaderElections
from kpybroker.machines.zookeeper.controller.producer_ids import next_block
from kpybroker.machines.zookeeper.controller.reassignment import Errors, Reassignments
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings, ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import (
    AclOf,
    ControllerMoved,
    Steps,
    ZnodeWriter,
    children,
    expected,
    read,
)
from kpybroker.machines.zookeeper.controller.topics import RandomBytes, ZooKeeperTopics
from kpybroker.machines.zookeeper.tree import paths, requests
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.controller import NO_CONTROLLER, encode_epoch
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire import error_codes


def _open(_path: str) -> tuple[ZnodeAcl, ...]:
    return OPEN_ACL


class NotController(Exception):
    """A request for the controller reached a broker that is not the controller."""


class KafkaController:
    """One broker's part in the control of the cluster. It is in charge while ``is_active``.

    Each public method is one event. An event that is under way must end before the next one begins. If it raises, the
    shell calls :meth:`resign` unless another controller was elected.
    """

    def __init__(
        self,
        broker_id: int,
        settings: ControllerSettings,
        *,
        send: Callable[[list[BrokerRequest]], object],
        log: Callable[[str], object],
        random_bytes: RandomBytes,
        acl_of: AclOf = _open,
        on_brokers: Callable[[], object] = lambda: None,
    ) -> None:
        """``acl_of`` gives the ACLs of znodes. ``on_brokers`` is called when the brokers of the reign have changed,
        before requests to them are sent."""
        self.broker_id = broker_id
        self.active_id = NO_CONTROLLER
        self._settings = settings
        self._send = send
        self._log = log
        self._random_bytes = random_bytes
        self._acl_of = acl_of
        self._on_brokers = on_brokers
        self._reign: _Reigning | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._reign is not None

    @property
    def reign(self) -> ZooKeeperReign | None:
        """The reign of now, for those who show it."""
        return None if self._reign is None else self._reign.reign

    def abdicate(self) -> None:
        """The session has expired, or another controller was elected: forget everything. Nothing is written."""
        if self._reign is not None:
            self._reign = None
            self._on_brokers()

    def controller_changed(self, now_ms: int) -> Steps[None]:
        """Learn who the controller is, and stand for election if there is none (``processReelect``)."""
        elected = yield from election.current_controller()
        self.active_id = NO_CONTROLLER if elected is None else elected.broker_id
        if self.active_id != self.broker_id:
            self.abdicate()
        if elected is None:
            yield from self._stand(now_ms)

    def resign(self) -> Steps[None]:
        """Give the office up, so that another broker may do what this one could not (``triggerControllerMove``)."""
        reign = self._reign
        self.abdicate()
        self.active_id = NO_CONTROLLER
        if reign is not None:
            yield from reign.reign.writer.delete_if_there([paths.CONTROLLER])

    def _stand(self, now_ms: int) -> Steps[None]:
        try:
            won = yield from election.elect(self.broker_id, now_ms, self._acl_of)
        except ControllerMoved:
            elected = yield from election.current_controller()
            self.active_id = NO_CONTROLLER if elected is None else elected.broker_id
            return
        self.active_id = self.broker_id
        reign = ZooKeeperReign(
            self._settings, ZnodeWriter(won.epoch_version, self._acl_of), won.epoch, self._send, self._log
        )
        self._reign = _Reigning(reign, self._random_bytes, self._on_brokers)
        yield from self._reign.begin()

    def handle(self, event: events.Event) -> Steps[None]:
        """One event other than ``ControllerChange``. Without the office nothing is done."""
        if self._reign is not None:
            yield from self._reign.handle(event)

    def _active(self) -> "_Reigning":
        if self._reign is None:
            raise NotController
        return self._reign

    def alter_partition(
        self, broker_id: int, broker_epoch: int, wanted: Mapping[TopicPartition, Leadership]
    ) -> Steps[dict[TopicPartition, Outcome] | int]:
        """AlterPartition: the outcome of each partition, or the error of the whole request. Reassignments that can end
        now go on in :meth:`complete_reassignments`, after the answer."""
        active = self._active()
        error = broker_error(active.reign, broker_id, broker_epoch)
        if error != error_codes.NONE:
            return error
        return (yield from alter_partition(active.reign, wanted))

    def complete_reassignments(self, outcomes: Mapping[TopicPartition, Outcome]) -> Steps[None]:
        """End the reassignments that waited for these ISRs."""
        for partition, outcome in outcomes.items():
            if self._reign is not None and isinstance(outcome, Leadership):
                yield from self._reign.reassignments.complete_if_done(partition)

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Steps[list[TopicPartition] | int]:
        """ControlledShutdown: the partitions that the broker still leads, or an error."""
        return (yield from shut_down(self._active().reign, broker_id, broker_epoch))

    def elect_leaders(
        self, partitions: list[TopicPartition] | None, election_type: ElectionType
    ) -> Steps[dict[TopicPartition, int]]:
        """ElectLeaders: an error for each partition. None stands for all partitions."""
        active = self._active()
        chosen = list(active.reign.context.all_partitions()) if partitions is None else partitions
        return (yield from active.elections.elect(chosen, election_type))

    def alter_reassignments(self, targets: Mapping[TopicPartition, BrokerIds | None]) -> Steps[Errors]:
        """AlterPartitionReassignments: an error for each partition. None as the target cancels."""
        return (yield from self._active().reassignments.alter(targets))

    def list_reassignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        """ListPartitionReassignments."""
        context = self._active().reign.context
        return {each: context.assignment(each) for each in context.reassigned}

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Steps[ProducerIdBlock | int]:
        """AllocateProducerIds: a block, or an error."""
        active = self._active()
        if broker_id not in active.reign.context.brokers:
            return error_codes.BROKER_ID_NOT_REGISTERED
        error = broker_error(active.reign, broker_id, broker_epoch)
        if error != error_codes.NONE:
            return error
        return (yield from next_block(broker_id))


class _Reigning:
    """The parts of one reign."""

    def __init__(self, reign: ZooKeeperReign, random_bytes: RandomBytes, on_brokers: Callable[[], object]) -> None:
        self.reign = reign
        self.reassignments = Reassignments(reign)
        self.elections = LeaderElections(reign)
        self._on_brokers = on_brokers
        self._brokers = Brokers(reign, self.reassignments, on_brokers)
        self._topics = ZooKeeperTopics(reign, random_bytes)

    def begin(self) -> Steps[None]:
        """Take over the cluster as it is in ZooKeeper (``onControllerFailover``).

        Watches are set before anything is read, so that no change falls between.
        """
        reign, context = self.reign, self.reign.context
        yield from features.enable(reign.writer)
        for parent in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
            stale = yield from children(parent, is_watched=True)
            yield from reign.writer.delete_if_there([paths.child(parent, each) for each in stale])
        context.brokers.update((yield from self._brokers.read()))
        self._on_brokers()
        yield from self._topics.load()
        newest_epoch = yield from reign.refresh_leadership(list(context.all_partitions()))
        if newest_epoch > context.epoch:
            yield from self._outrank(newest_epoch)
            yield from reign.refresh_leadership(list(context.all_partitions()))
        marked = yield from self._topics.deletions()
        yield from reign.deletion.begin_reign(marked, self._topics.waiting_for_deletion())
        reign.inform_all()
        yield from self._begin_states()
        yield from self.reassignments.begin_reign()
        yield from reign.deletion.resume()
        yield from self.elections.requested()

    def _outrank(self, newest_epoch: int) -> Steps[None]:
        """Take an epoch above those in the states of partitions, which a controller would not change otherwise.

        Kafka's KRaft controllers write the epoch of their quorum there while a cluster migrates. If it goes back to
        ZooKeeper, that epoch may be the larger one (KAFKA-20488).
        """
        context, writer, epoch = self.reign.context, self.reign.writer, newest_epoch + 1
        write = Set(paths.CONTROLLER_EPOCH, encode_epoch(epoch), writer.epoch_version)
        (stat,) = yield from writer.write([write])
        writer.epoch_version, context.epoch = expected(stat, paths.CONTROLLER_EPOCH).version, epoch
        self.reign.log(f"The epoch of the controller is {epoch}, above those in the states of partitions")

    def _begin_states(self) -> Steps[None]:
        reign, context = self.reign, self.reign.context
        reign.replicas.initialize()
        everybody = context.replicas_of(context.all_partitions())
        online = [each for each in everybody if context.is_online(each.broker_id, each.partition)]
        offline = [each for each in everybody if not context.is_online(each.broker_id, each.partition)]
        yield from reign.change_replicas(online, ReplicaState.ONLINE)
        yield from reign.change_replicas(offline, ReplicaState.OFFLINE)
        reign.partitions.initialize()
        yield from reign.elect_for_offline()

    def handle(self, event: events.Event) -> Steps[None]:
        """One event."""
        match event:
            case events.BrokerChange():
                yield from self._brokers.changed()
            case events.BrokerModifications(broker_id):
                yield from self._brokers.modified(broker_id)
            case events.TopicChange():
                yield from self._topics.changed()
            case events.PartitionModifications(topic):
                yield from self._topics.modified(topic)
            case events.TopicDeletion():
                yield from self._topics.deletion_asked()
            case events.IsrChangeNotification():
                yield from self._isr_changed()
            case events.LogDirEventNotification():
                yield from self._brokers.directories_failed()
            case events.ZkPartitionReassignment():
                yield from self.reassignments.requested()
            case events.ZkReplicaLeaderElection():
                yield from self.elections.requested()
            case events.AutoPreferredReplicaLeaderElection():
                yield from self.elections.rebalance()
            case events.UncleanLeaderElectionEnable(topic):
                partitions = None if topic is None else self.reign.context.partitions_of(topic)
                yield from self.reign.elect_for_offline(partitions)
            case events.LeaderAndIsrResponseReceived(broker_id, error, errors):
                yield from self._brokers.leader_and_isr_answered(broker_id, error, errors)
            case events.TopicDeletionStopReplicaResponseReceived(broker_id, error, errors):
                yield from self._brokers.stop_replica_answered(broker_id, error, errors)

    def _isr_changed(self) -> Steps[None]:
        """Leaders of versions before Kafka 2.7 wrote ISRs themselves."""
        names = yield from children(paths.ISR_CHANGES, is_watched=True)
        notices = [paths.child(paths.ISR_CHANGES, each) for each in sorted(names)]
        znodes: list[Any] = yield from read([Get(each) for each in notices])
        partitions: dict[TopicPartition, None] = {}
        for path, znode in zip(notices, znodes, strict=True):
            if znode is not None:
                partitions.update(dict.fromkeys(requests.decode_partitions(path, znode.data)))
        known = [each for each in partitions if self.reign.context.replicas(each)]
        if known:
            yield from self.reign.refresh_leadership(known)
            self.reign.inform_all(known)
            for partition in known:
                yield from self.reassignments.complete_if_done(partition)
        yield from self.reign.writer.delete_if_there(notices)
