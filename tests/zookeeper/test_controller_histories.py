"""Random histories of a cluster in ZooKeeper: what must hold whatever happened, whenever nothing happens any more."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from reigning import Candidate, Cluster

from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b", "c")


class History:
    """A cluster with two candidates, and what happens to it. ``epochs`` are the newest leader epochs that were seen."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.cluster = Cluster(BROKERS, seed=data.draw(st.integers(0, 2**16)))
        self.allows_unclean = data.draw(st.booleans())
        self.next_id = 100
        for _ in range(2):
            self.add_candidate()
        self.epochs: dict[tuple[bytes | None, int], int] = {}

    def add_candidate(self) -> None:
        chosen = ControllerSettings(unclean_leader_election=lambda: self.allows_unclean)
        self.next_id += 1
        self.cluster.candidate(self.next_id, chosen)

    @property
    def active(self) -> Candidate:
        return next(each for each in self.cluster.candidates if each.controller.is_active)

    def topic(self) -> str:
        return self.data.draw(st.sampled_from(TOPICS))

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.data.draw(st.permutations(BROKERS)))[: self.data.draw(st.integers(1, 3))]

    def create(self) -> None:
        name = self.topic()
        if not self.cluster.is_there(paths.topic(name)):
            replicas = [self.replicas() for _ in range(self.data.draw(st.integers(1, 3)))]
            self.cluster.remove(f"/config/topics/{name}")
            self.cluster.create_topic(name, replicas)

    def delete(self) -> None:
        self.cluster.delete_topic(self.topic())

    def grow(self) -> None:
        name = self.topic()
        if self.cluster.is_there(paths.topic(name)):
            known = self.cluster.assignment(name)
            longer = known.replicas | {len(known.replicas): self.replicas()}
            self.cluster.assign(TopicAssignment(name, longer, known.topic_id, known.adding, known.removing))

    def kill(self) -> None:
        if self.cluster.brokers:
            self.cluster.kill(self.data.draw(st.sampled_from(sorted(self.cluster.brokers))))

    def start(self) -> None:
        absent = sorted(set(BROKERS) - set(self.cluster.brokers))
        if absent:
            self.cluster.start(self.data.draw(st.sampled_from(absent)))

    def fail_directory(self) -> None:
        broker = self.cluster.brokers.get(self.data.draw(st.sampled_from(BROKERS)))
        if broker is not None:
            broker.failed = {TopicPartition(self.topic(), 0)}

    def shut_down(self) -> None:
        broker_id = self.data.draw(st.sampled_from(BROKERS))
        if broker_id in self.cluster.brokers:
            epoch = self.cluster.brokers[broker_id].epoch
            self.active.run(self.active.controller.controlled_shutdown(broker_id, epoch))

    def reassign(self) -> None:
        target = None if self.data.draw(st.booleans()) else self.replicas()
        self.active.run(self.active.controller.alter_reassignments({TopicPartition(self.topic(), 0): target}))

    def elect(self) -> None:
        chosen = self.data.draw(st.sampled_from(ElectionType))
        self.active.run(self.active.controller.elect_leaders(None, chosen))

    def catch_up_isr(self) -> None:
        """Every leader asks for all live replicas in its ISR."""
        for name in self.cluster.children(paths.TOPICS):
            for partition, replicas in self.cluster.assignment(name).replicas.items():
                if not self.cluster.is_there(paths.partition_state(name, partition)):
                    continue
                state = self.cluster.state(name, partition)
                if state.leader not in self.cluster.brokers:
                    continue
                isr = tuple(each for each in replicas if each in self.cluster.brokers)
                wanted = LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, isr, state.controller_epoch)
                change = {
                    TopicPartition(name, partition): Leadership(wanted, self.cluster.state_epoch(name, partition))
                }
                epoch = self.cluster.brokers[state.leader].epoch
                outcome = self.active.run(self.active.controller.alter_partition(state.leader, epoch, change))
                if isinstance(outcome, dict):
                    self.active.run(self.active.controller.complete_reassignments(outcome))

    def depose(self) -> None:
        self.cluster.remove(paths.CONTROLLER)

    def expire_controller(self) -> None:
        active = self.active
        self.cluster.server.expire(active.session.session_id)
        self.cluster.candidates.remove(active)
        self.add_candidate()

    def interrupt(self) -> None:
        """Another controller is elected in the middle of the next event."""
        active = self.active

        def replace() -> None:
            active.on_step = lambda: None
            self.cluster.remove(paths.CONTROLLER)
            for each in self.cluster.candidates:
                if each is not active:
                    each.catch_up()

        active.on_step = replace

    def check(self) -> None:
        """Check the invariants of a cluster in which nothing happens any more."""
        cluster, context = self.cluster, self.active.controller.reign.context  # type: ignore[union-attr]
        assert sum(each.controller.is_active for each in cluster.candidates) == 1
        assert set(context.brokers) == set(cluster.brokers)
        assert set(context.topics) == set(cluster.children(paths.TOPICS))
        for name in cluster.children(paths.DELETE_TOPICS):
            away = [broker_id for _, broker_id in context.replicas_of(context.partitions_of(name))]
            is_waiting = context.reassigned or set(away) - set(context.live_ids) or context.offline_directories
            assert is_waiting, f"{name} could be deleted"
        for partition in context.all_partitions():
            self._check_partition(partition)

    def _check_partition(self, partition: TopicPartition) -> None:
        cluster, context = self.cluster, self.active.controller.reign.context  # type: ignore[union-attr]
        name, number = partition
        assignment = cluster.assignment(name)
        if number not in assignment.replicas:
            # As Kafka's, the controller takes back partitions that are added to a topic that waits for its deletion,
            # and with them the assignments of partitions that never had a leader, so that no broker has their logs.
            assert context.is_queued_for_deletion(name)
            assert not cluster.is_there(paths.partition_state(name, number))
            return
        assert context.replicas(partition) == assignment.replicas[number]
        live = [each for each in context.replicas(partition) if context.is_online(each, partition)]
        if not cluster.is_there(paths.partition_state(name, number)):
            assert not live or context.is_queued_for_deletion(name) or partition in context.reassigned
            return
        state = cluster.state(name, number)
        known = context.leadership[partition]
        assert replace(known.state, controller_epoch=state.controller_epoch) == state
        assert known.partition_epoch == cluster.state_epoch(name, number)
        seen = (assignment.topic_id, number)
        assert state.leader_epoch >= self.epochs.get(seen, 0)
        self.epochs[seen] = state.leader_epoch
        assert state.isr
        if context.is_queued_for_deletion(name):
            return
        if set(state.isr) & set(live):
            assert state.leader in live
            assert state.leader in state.isr
        assert state.leader == -1 or context.is_online(state.leader, partition, or_shutting_down=True)


HAPPENINGS: tuple[Callable[[History], None], ...] = (
    History.create,
    History.create,
    History.delete,
    History.grow,
    History.kill,
    History.start,
    History.start,
    History.fail_directory,
    History.shut_down,
    History.reassign,
    History.elect,
    History.catch_up_isr,
    History.catch_up_isr,
    History.depose,
    History.expire_controller,
    History.interrupt,
)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_settled_cluster_has_one_controller_which_knows_the_tree_and_leads_what_it_can(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(1, 25))):
        data.draw(st.sampled_from(HAPPENINGS))(history)
        if data.draw(st.booleans()):
            for each in history.cluster.candidates:
                each.catch_up()
        else:
            history.cluster.settle()
            history.check()
    history.cluster.settle()
    history.check()


class Scripted:
    """Draws that are known beforehand."""

    def __init__(self, *draws: object) -> None:
        self._draws = list(draws)

    def draw(self, _strategy: object) -> object:
        return self._draws.pop(0)


def test_a_partition_added_to_a_topic_queued_for_deletion_starts_the_unstarted_ones_too() -> None:
    replicas = [1, 2, 3, 4]
    history = History(Scripted(0, False, 1, "c", 1, replicas, 1, "c", "c", replicas, 1, 1))  # type: ignore[arg-type]
    for happening in (History.kill, History.create, History.delete, History.grow):
        happening(history)
        history.cluster.settle()
        history.check()
    assert history.cluster.assignment("c").replicas == {}
    history.start()
    history.cluster.settle()
    history.check()
    assert not history.cluster.is_there(paths.topic("c"))
