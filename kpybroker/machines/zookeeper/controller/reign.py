"""One reign: the parts that decide, from an election until another controller is elected.

The parts share the context, the pen and the batch. A change of states fills the batch, and the batch is sent when the
change is done, as with Kafka.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kpybroker.machines.zookeeper.controller.batch import BrokerRequest, BrokerRequestBatch
from kpybroker.machines.zookeeper.controller.context import (
    ControllerContext,
    PartitionReplica,
    PartitionState,
    ReplicaState,
)
from kpybroker.machines.zookeeper.controller.deletion import TopicDeletions
from kpybroker.machines.zookeeper.controller.leadership import read_states
from kpybroker.machines.zookeeper.controller.partition_states import Outcomes, PartitionStates, Strategy
from kpybroker.machines.zookeeper.controller.replica_states import ReplicaStates
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter
from kpybroker.machines.zookeeper.tree.requests import TopicPartition


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The configs of the node that the controller obeys. ``unclean_leader_election`` may change while it runs."""

    delete_topic_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    unclean_leader_election: Callable[[], bool] = lambda: False


class ZooKeeperReign:
    """The state of a reign, and the changes that its parts make together."""

    def __init__(
        self,
        settings: ControllerSettings,
        writer: ZnodeWriter,
        epoch: int,
        send: Callable[[list[BrokerRequest]], object],
        log: Callable[[str], object],
    ) -> None:
        """``send`` gets the requests of a batch, in order; ``log`` gets lines for the state change log."""
        self.settings = settings
        self.writer = writer
        self.log = log
        self.context = ControllerContext(delete_topic_enable=settings.delete_topic_enable)
        self.context.epoch = epoch
        self.batch = BrokerRequestBatch(self.context)
        self._send = send
        self.replicas = ReplicaStates(self.context, writer, self.batch, log)
        self.partitions = PartitionStates(
            self.context, writer, self.batch, log, unclean_by_default=settings.unclean_leader_election
        )
        self.deletion = TopicDeletions(self.context, writer, self.batch, self.replicas, self.partitions, self.end_batch)

    def end_batch(self) -> None:
        """Send what was collected."""
        self._send(self.batch.end())

    def inform(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send UpdateMetadata with all live brokers and these partitions."""
        self.batch.update_metadata(broker_ids, partitions)
        self.end_batch()

    def inform_all(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Send UpdateMetadata to every broker."""
        self.inform(self.context.live_or_shutting_down_ids, partitions)

    def change_replicas(self, replicas: Iterable[PartitionReplica], to: ReplicaState) -> Steps[None]:
        """Change the states of replicas, and tell brokers."""
        yield from self.replicas.change(replicas, to)
        self.end_batch()

    def bring_online(
        self, partitions: Iterable[TopicPartition], strategy: Strategy | None = None, *, unclean: bool = False
    ) -> Steps[Outcomes]:
        """Elect leaders, and tell brokers."""
        outcomes = yield from self.partitions.bring_online(partitions, strategy, unclean=unclean)
        self.end_batch()
        return outcomes

    def elect_for_offline(self, partitions: Iterable[TopicPartition] | None = None) -> Steps[None]:
        """Elect leaders of partitions without one, and tell brokers."""
        yield from self.partitions.elect_for_offline(partitions)
        self.end_batch()

    def refresh_leadership(self, partitions: Iterable[TopicPartition]) -> Steps[int]:
        """Read the states of partitions again. Those without a state are not changed. Return the largest epoch of a
        controller in them."""
        states = yield from read_states(self.context, partitions)
        self.context.leadership.update(states.found)
        return states.newest_epoch

    def replicas_went_offline(self, replicas: list[PartitionReplica]) -> Steps[None]:
        """Replicas are lost with their broker or directory: others lead, and they leave the ISR
        (``onReplicasBecomeOffline``)."""
        context = self.context
        deleted = [each for each in replicas if context.is_queued_for_deletion(each.partition.topic)]
        kept = [each for each in replicas if not context.is_queued_for_deletion(each.partition.topic)]
        leaderless = [
            partition
            for partition, (state, _) in context.leadership.items()
            if not context.is_online(state.leader, partition) and not context.is_queued_for_deletion(partition.topic)
        ]
        self.partitions.change(leaderless, PartitionState.OFFLINE)
        yield from self.elect_for_offline()
        yield from self.change_replicas(kept, ReplicaState.OFFLINE)
        if deleted:
            yield from self.deletion.fail(deleted)
        if not kept:
            self.inform_all()
