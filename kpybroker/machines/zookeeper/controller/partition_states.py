"""The states of partitions, and the elections that changes need (Kafka's ``ZkPartitionStateMachine``).

    NonExistent -> New -> Online <-> Offline -> NonExistent

A change that is not among these is logged and skipped; the other partitions go on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Create, Get
from kpybroker.machines.zookeeper.controller.batch import BrokerRequestBatch
from kpybroker.machines.zookeeper.controller.context import ControllerContext, Leadership, PartitionState
from kpybroker.machines.zookeeper.controller.elections import Elected, elect_offline
from kpybroker.machines.zookeeper.controller.leadership import (
    StateChangeFailed,
    name,
    read_states,
    state_path,
    write_states,
)
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter, failed_with, read
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

_BEFORE: Final = {
    PartitionState.NEW: {PartitionState.NON_EXISTENT},
    PartitionState.ONLINE: {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE},
    PartitionState.OFFLINE: {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE},
    PartitionState.NON_EXISTENT: {PartitionState.OFFLINE},
}

Strategy = Callable[[ControllerContext, TopicPartition, LeaderIsrAndControllerEpoch], Elected]
Outcomes = dict[TopicPartition, Leadership | Exception]
"""The state since the election, or why there is none."""


class PartitionStates:
    """Changes the states of partitions. ``unclean_by_default`` is the node's own ``unclean.leader.election.enable``."""

    def __init__(
        self,
        context: ControllerContext,
        writer: ZnodeWriter,
        batch: BrokerRequestBatch,
        log: Callable[[str], object],
        *,
        unclean_by_default: Callable[[], bool],
    ) -> None:
        self._context = context
        self._writer = writer
        self._batch = batch
        self._log = log
        self._unclean_by_default = unclean_by_default

    def initialize(self) -> None:
        """The states of all partitions as a reign begins."""
        for partition in self._context.all_partitions():
            known = self._context.leadership.get(partition)
            if known is None:
                state = PartitionState.NEW
            else:
                online = self._context.is_online(known.state.leader, partition)
                state = PartitionState.ONLINE if online else PartitionState.OFFLINE
            self._context.partition_states[partition] = state

    def elect_for_offline(self, partitions: Iterable[TopicPartition] | None = None) -> Steps[None]:
        """Bring partitions online that have no leader, or those among ``partitions``."""
        without_leader = self._context.partitions_in(PartitionState.OFFLINE, PartitionState.NEW)
        chosen = without_leader if partitions is None else [each for each in partitions if each in without_leader]
        to_elect = [each for each in chosen if not self._context.is_queued_for_deletion(each.topic)]
        yield from self.bring_online(to_elect)

    def change(self, partitions: Iterable[TopicPartition], to: PartitionState) -> None:
        """Change the state of partitions to one that needs no election."""
        for partition in self._allowed(partitions, to):
            if to is PartitionState.NON_EXISTENT:
                self._context.partition_states.pop(partition)
            else:
                self._context.partition_states[partition] = to

    def bring_online(
        self, partitions: Iterable[TopicPartition], strategy: Strategy | None = None, *, unclean: bool = False
    ) -> Steps[Outcomes]:
        """Give partitions a leader: new ones their first, the others by ``strategy``, which is elections for partitions
        without one if it is None. ``unclean`` allows any live replica in these."""
        allowed = self._allowed(partitions, PartitionState.ONLINE)
        states = self._context.partition_states
        new = [each for each in allowed if states[each] is PartitionState.NEW]
        remaining = [each for each in allowed if states[each] is not PartitionState.NEW]
        yield from self._start(new)
        outcomes: Outcomes = {}
        while remaining:
            remaining = yield from self._elect(remaining, strategy, outcomes, unclean=unclean)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, Leadership):
                states[partition] = PartitionState.ONLINE
            else:
                self._log(f"{name(partition)} gets no leader: {outcome}")
        return outcomes

    def _allowed(self, partitions: Iterable[TopicPartition], to: PartitionState) -> list[TopicPartition]:
        allowed = []
        for partition in partitions:
            before = self._context.partition_states.setdefault(partition, PartitionState.NON_EXISTENT)
            if before in _BEFORE[to]:
                allowed.append(partition)
            else:
                self._log(f"{name(partition)} cannot change from {before.value} to {to.value}")
        return allowed

    def _start(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """The first leader of new partitions: their first live replica. The live replicas are the ISR."""
        first: dict[TopicPartition, Leadership] = {}
        for partition in partitions:
            replicas = self._context.replicas(partition)
            live = tuple(each for each in replicas if self._context.is_online(each, partition))
            if live:
                state = LeaderIsrAndControllerEpoch(
                    live[0], leader_epoch=0, isr=live, controller_epoch=self._context.epoch
                )
                first[partition] = Leadership(state, 0)
            else:
                self._log(f"{name(partition)} gets no leader: none of its replicas {list(replicas)} is alive")
        if not first:
            return
        topics = dict.fromkeys(each.topic for each in first)
        yield from self._writer.create_if_absent(f"{paths.topic(each)}/partitions" for each in topics)
        yield from self._writer.create_if_absent(state_path(each).rpartition("/")[0] for each in first)
        creations = [
            Create(state_path(each), leadership.state.encode(), self._writer.acl_of(state_path(each)))
            for each, leadership in first.items()
        ]
        results = yield from self._writer.write(creations)
        for (partition, leadership), result in zip(first.items(), results, strict=True):
            if failed_with(result, error_codes.NODE_EXISTS) and not (yield from self._is_own(partition, leadership)):
                self._log(f"{name(partition)} is not new: it has a state in ZooKeeper")
                continue
            self._context.leadership[partition] = leadership
            self._context.partition_states[partition] = PartitionState.ONLINE
            self._batch.leader_and_isr(leadership.state.isr, partition, leadership, is_new=True)

    def _is_own(self, partition: TopicPartition, leadership: Leadership) -> Steps[bool]:
        """Whether the state in ZooKeeper is the one that was to be created: the answer to that was lost."""
        current = yield from read_states(self._context, [partition])
        return current.found.get(partition) == leadership

    def _elect(
        self, partitions: list[TopicPartition], strategy: Strategy | None, outcomes: Outcomes, *, unclean: bool
    ) -> Steps[list[TopicPartition]]:
        """Elect once. The partitions that somebody else changed meanwhile are returned."""
        current = yield from read_states(self._context, partitions)
        outcomes |= current.failed
        if strategy is None:
            unclean_topics = yield from self._unclean_topics(current.found, everybody=unclean)
            elections = {
                each: elect_offline(self._context, each, state, unclean=each.topic in unclean_topics)
                for each, (state, _) in current.found.items()
            }
        else:
            elections = {each: strategy(self._context, each, state) for each, (state, _) in current.found.items()}
        changes: dict[TopicPartition, Leadership] = {}
        for partition, elected in elections.items():
            if elected.state is None:
                outcomes[partition] = StateChangeFailed("no replica may lead")
            else:
                changes[partition] = Leadership(elected.state, current.found[partition].partition_epoch)
        updated = yield from write_states(self._writer, changes)
        outcomes |= updated.failed
        for partition, leadership in updated.finished.items():
            self._context.leadership[partition] = leadership
            outcomes[partition] = leadership
            self._batch.leader_and_isr(elections[partition].recipients, partition, leadership, is_new=False)
        return updated.retried

    def _unclean_topics(self, found: Mapping[TopicPartition, Leadership], *, everybody: bool) -> Steps[set[str]]:
        """The topics with partitions whose whole ISR is away, and where another replica may lead."""
        lost = {
            partition.topic
            for partition, (state, _) in found.items()
            if not any(self._context.is_online(each, partition) for each in state.isr)
        }
        if everybody or not lost:
            return lost
        entities = [configs.ConfigEntity(configs.TOPICS, each) for each in sorted(lost)]
        znodes = yield from read([Get(each.path) for each in entities])
        default = str(self._unclean_by_default()).lower()
        allowed = set()
        for entity, znode in zip(entities, znodes, strict=True):
            own = configs.decode_configs(entity.path, znode and znode.data)
            if own.get(UNCLEAN_ELECTION, default).strip().lower() == "true":
                allowed.add(entity.name)
        return allowed
