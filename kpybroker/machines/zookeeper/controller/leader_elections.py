"""Elections that somebody asks for: ElectLeaders, old tools by a znode, and the rebalancing of leaders."""

from collections.abc import Iterable, Mapping
from enum import Enum

from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.zookeeper.client.operations import Exists, Get
from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.elections import elect_preferred
from kpybroker.machines.zookeeper.controller.leadership import StateChangeFailed
from kpybroker.machines.zookeeper.controller.reign import ZooKeeperReign
from kpybroker.machines.zookeeper.controller.steps import Steps, read
from kpybroker.machines.zookeeper.tree import paths, requests
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire import error_codes


class ElectionType(Enum):
    """``org.apache.kafka.common.ElectionType``, by its code."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderElections:
    """Elects leaders of partitions that have one already, or whose ISR is away."""

    def __init__(self, reign: ZooKeeperReign) -> None:
        self._reign = reign
        self._context = reign.context

    def elect(self, partitions: Iterable[TopicPartition], election: ElectionType) -> Steps[dict[TopicPartition, int]]:
        """ElectLeaders: an error for each partition. An unclean election is allowed, whatever the configs say."""
        errors: dict[TopicPartition, int] = {}
        electable: list[TopicPartition] = []
        for partition in partitions:
            if not self._context.replicas(partition):
                errors[partition] = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            elif self._context.is_queued_for_deletion(partition.topic):
                errors[partition] = error_codes.INVALID_TOPIC_EXCEPTION
            elif not self._is_needed(partition, election):
                errors[partition] = error_codes.ELECTION_NOT_NEEDED
            else:
                electable.append(partition)
        if election is ElectionType.PREFERRED:
            outcomes = yield from self._reign.bring_online(electable, elect_preferred)
        else:
            outcomes = yield from self._reign.bring_online(electable, unclean=True)
        return errors | {each: _error(outcome, election) for each, outcome in outcomes.items()}

    def requested(self) -> Steps[None]:
        """An old tool wrote ``/admin/preferred_replica_election``; it is deleted when all is done."""
        (there,) = yield from read([Exists(paths.PREFERRED_ELECTION, is_watched=True)])
        if there is None:
            return
        (znode,) = yield from read([Get(paths.PREFERRED_ELECTION)])
        if znode is not None:
            yield from self.elect(
                requests.decode_partitions(paths.PREFERRED_ELECTION, znode.data), ElectionType.PREFERRED
            )
        yield from self._reign.writer.delete_if_there([paths.PREFERRED_ELECTION])

    def rebalance(self) -> Steps[None]:
        """Leaders return to preferred replicas, for each broker that lacks more than
        ``leader.imbalance.per.broker.percentage`` of what it should lead (``checkAndTriggerAutoLeaderRebalance``)."""
        for partitions in self._by_preferred_leader().values():
            displaced = [each for each in partitions if self._is_needed(each, ElectionType.PREFERRED)]
            threshold = self._reign.settings.leader_imbalance_per_broker_percentage
            if len(displaced) * 100 <= threshold * len(partitions) or self._context.reassigned:
                continue
            ready = [each for each in displaced if self._may_lead(each)]
            yield from self._reign.bring_online(ready, elect_preferred)

    def _by_preferred_leader(self) -> Mapping[int, list[TopicPartition]]:
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in self._context.all_partitions():
            replicas = self._context.replicas(partition)
            if replicas and not self._context.is_queued_for_deletion(partition.topic):
                by_broker.setdefault(replicas[0], []).append(partition)
        return by_broker

    def _may_lead(self, partition: TopicPartition) -> bool:
        state = self._context.leadership[partition].state
        return elect_preferred(self._context, partition, state).state is not None

    def _is_needed(self, partition: TopicPartition, election: ElectionType) -> bool:
        known = self._context.leadership.get(partition)
        leader = NO_LEADER if known is None else known.state.leader
        if election is ElectionType.PREFERRED:
            return known is not None and leader != self._context.replicas(partition)[0]
        return leader not in self._context.live_ids


def _error(outcome: Leadership | Exception, election: ElectionType) -> int:
    if isinstance(outcome, Leadership):
        return error_codes.NONE
    if not isinstance(outcome, StateChangeFailed):
        return error_codes.UNKNOWN_SERVER_ERROR
    if election is ElectionType.PREFERRED:
        return error_codes.PREFERRED_LEADER_NOT_AVAILABLE
    return error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE
