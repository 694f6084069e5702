"""The events of the controller in ZooKeeper, one after the other."""

from typing import Any

from reigning import Candidate, Cluster

from kpybroker.machines.zookeeper.client.operations import Create, Get, Operation
from kpybroker.machines.zookeeper.controller.batch import LeaderAndIsr, StopReplica, UpdateMetadata
from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.machines.zookeeper.tree import controller, paths, requests
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire import error_codes

T0 = TopicPartition("t", 0)


def alter_isr(cluster: Cluster, candidate: Candidate, leader: int, *isr: int) -> object:
    """The leader of t-0 asks for an ISR, and the cluster settles."""
    state = cluster.state("t")
    wanted = LeaderIsrAndControllerEpoch(leader, state.leader_epoch, isr, state.controller_epoch, state.recovery)
    change = {T0: Leadership(wanted, cluster.state_epoch("t"))}
    outcome = candidate.run(candidate.controller.alter_partition(leader, cluster.brokers[leader].epoch, change))
    if isinstance(outcome, dict):
        candidate.run(candidate.controller.complete_reassignments(outcome))
    cluster.settle()
    return outcome


def test_the_first_candidate_is_elected_with_epoch_one_and_the_second_is_not() -> None:
    cluster = Cluster()
    one, two = cluster.candidate(1), cluster.candidate(2)
    assert (one.controller.is_active, two.controller.is_active) == (True, False)
    assert two.controller.active_id == 1
    assert cluster.admin.ask(Get(paths.CONTROLLER_EPOCH)).data == b"1"
    assert controller.ElectedController.decode(cluster.admin.ask(Get(paths.CONTROLLER)).data).broker_id == 1


def test_a_new_topic_gets_its_first_live_replica_as_leader_and_the_live_ones_as_isr() -> None:
    cluster = Cluster((2, 3))
    cluster.candidate()
    cluster.create_topic("t", [[1, 2, 3], [3, 2]])
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(2, 0, (2, 3), controller_epoch=1)
    assert cluster.state("t", 1) == LeaderIsrAndControllerEpoch(3, 0, (3, 2), controller_epoch=1)
    sent = [each for each in cluster.brokers[2].requests if isinstance(each, LeaderAndIsr)]
    assert sent[0].partitions[T0].is_new
    assert {type(each) for each in cluster.brokers[3].requests} == {LeaderAndIsr, UpdateMetadata}


def test_a_topic_without_live_replicas_waits_for_one() -> None:
    cluster = Cluster((1,))
    cluster.candidate()
    cluster.create_topic("t", [[2]])
    cluster.settle()
    assert not cluster.is_there(paths.partition_state("t", 0))
    cluster.start(2)
    cluster.settle()
    assert cluster.state("t").leader == 2


def test_a_broker_that_dies_loses_what_it_leads_and_leaves_the_isr() -> None:
    cluster = Cluster()
    cluster.candidate()
    cluster.create_topic("t", [[1, 2], [2, 1]])
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(2, 1, (2,), controller_epoch=1)
    assert cluster.state("t", 1) == LeaderIsrAndControllerEpoch(2, 1, (2,), controller_epoch=1)


def test_the_last_replica_of_an_isr_stays_in_it_without_leading_and_leads_again() -> None:
    cluster = Cluster()
    cluster.candidate(3)
    cluster.create_topic("t", [[1]])
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(-1, 1, (1,), controller_epoch=1)
    cluster.start(1)
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(1, 2, (1,), controller_epoch=1)


def test_a_broker_that_came_back_as_another_process_was_gone() -> None:
    cluster = Cluster()
    candidate = cluster.candidate(3)
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    cluster.kill(1)
    cluster.start(1)
    cluster.settle()
    assert cluster.state("t").leader == 2
    assert cluster.state("t").isr == (2,)
    assert cluster.brokers[1].requests
    assert candidate.log == []


def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it() -> None:
    cluster = Cluster()
    candidate = cluster.candidate(3)
    cluster.create_topic("t", [[1, 2]], **{"unclean.leader.election.enable": "true"})
    cluster.create_topic("u", [[1, 2]])
    cluster.settle()
    cluster.kill(2)
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    cluster.start(2)
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(2, 3, (2,), controller_epoch=1, recovery=1)
    assert cluster.state("u").leader == -1
    outcome = candidate.run(candidate.controller.elect_leaders([TopicPartition("u", 0)], ElectionType.UNCLEAN))
    assert outcome == {TopicPartition("u", 0): error_codes.NONE}
    assert cluster.state("u").leader == 2


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    cluster = Cluster()
    cluster.candidate()
    cluster.create_topic("t", [[1, 2], [3, 1]])
    cluster.settle()
    cluster.delete_topic("t")
    cluster.settle()
    for path in (paths.topic("t"), "/config/topics/t", paths.delete_topic("t")):
        assert not cluster.is_there(path)
    stops = [each for each in cluster.brokers[1].requests if isinstance(each, StopReplica)]
    assert [each.partitions[T0] for each in stops] == [(-2, False), (-2, True)]
    infos = [
        each.partitions[T0]
        for each in cluster.brokers[2].requests
        if isinstance(each, UpdateMetadata) and T0 in each.partitions
    ]
    assert infos[-1].leader == -2


def test_the_deletion_of_a_topic_with_an_absent_replica_waits_for_it() -> None:
    cluster = Cluster()
    cluster.candidate(3)
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    cluster.delete_topic("t")
    cluster.settle()
    assert cluster.is_there(paths.topic("t"))
    cluster.start(1)
    cluster.settle()
    assert not cluster.is_there(paths.topic("t"))
    assert not cluster.is_there(paths.delete_topic("t"))


def test_a_marker_of_an_unknown_topic_is_removed_and_all_are_where_deletion_is_off() -> None:
    cluster = Cluster()
    cluster.candidate(1, ControllerSettings(delete_topic_enable=False))
    cluster.create_topic("t", [[1]])
    cluster.settle()
    cluster.delete_topic("t")
    cluster.delete_topic("nothing")
    cluster.settle()
    assert cluster.children(paths.DELETE_TOPICS) == []
    assert cluster.is_there(paths.topic("t"))


def test_partitions_that_are_added_start() -> None:
    cluster = Cluster()
    cluster.candidate()
    cluster.create_topic("t", [[1]])
    cluster.settle()
    known = cluster.assignment("t")
    cluster.assign(TopicAssignment("t", {0: (1,), 1: (2, 3)}, known.topic_id))
    cluster.settle()
    assert cluster.state("t", 1).leader == 2


def test_a_topic_of_an_old_tool_gets_an_id_and_keeps_it_when_the_tool_drops_it() -> None:
    cluster = Cluster()
    cluster.candidate()
    cluster.admin.ask(Create(paths.topic("t"), b'{"version":1,"partitions":{"0":[1]}}'))
    cluster.settle()
    topic_id = cluster.assignment("t").topic_id
    assert topic_id is not None
    cluster.assign(TopicAssignment("t", {0: (1,), 1: (2,)}, None))
    cluster.settle()
    assert cluster.assignment("t").topic_id == topic_id
    assert cluster.state("t", 1).leader == 2


def test_a_reassignment_ends_when_the_new_replicas_are_in_the_isr() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    assert candidate.run(candidate.controller.alter_reassignments({T0: (3, 2)})) == {T0: error_codes.NONE}
    cluster.settle()
    during = cluster.assignment("t")
    assert (during.replicas[0], during.adding[0], during.removing[0]) == ((3, 2, 1), (3,), (1,))
    assert list(candidate.controller.list_reassignments()) == [T0]
    alter_isr(cluster, candidate, 1, 1, 2, 3)
    after = cluster.assignment("t")
    assert (after.replicas, after.adding, after.removing) == ({0: (3, 2)}, {}, {})
    assert (cluster.state("t").leader, set(cluster.state("t").isr)) == (3, {2, 3})
    assert candidate.controller.list_reassignments() == {}
    deleted = [
        each for each in cluster.brokers[1].requests if isinstance(each, StopReplica) and each.partitions[T0].deletes
    ]
    assert len(deleted) == 1
    assert candidate.log == []


def test_a_reassignment_that_is_cancelled_restores_the_replicas() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    candidate.run(candidate.controller.alter_reassignments({T0: (3,)}))
    cluster.settle()
    assert candidate.run(candidate.controller.alter_reassignments({T0: None})) == {T0: error_codes.NONE}
    cluster.settle()
    assert set(cluster.assignment("t").replicas[0]) == {1, 2}
    assert candidate.run(candidate.controller.alter_reassignments({T0: None})) == {
        T0: error_codes.NO_REASSIGNMENT_IN_PROGRESS
    }


def test_reassignments_of_an_old_tool_are_done_and_taken_out_of_their_znode() -> None:
    cluster = Cluster()
    cluster.candidate()
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    wanted = {T0: (2, 1), TopicPartition("absent", 0): (1,)}
    cluster.admin.ask(Create(paths.REASSIGN_PARTITIONS, requests.encode_reassignments(wanted)))
    cluster.settle()
    assert cluster.assignment("t").replicas == {0: (2, 1)}
    assert not cluster.is_there(paths.REASSIGN_PARTITIONS)


def test_a_reassignment_to_a_dead_broker_is_refused() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    for target in ((9,), (), (1, 1), (-1,)):
        assert candidate.run(candidate.controller.alter_reassignments({T0: target})) == {
            T0: error_codes.INVALID_REPLICA_ASSIGNMENT
        }


def test_isr_changes_are_checked_in_kafkas_order() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.settle()
    cluster.kill(3)
    cluster.settle()
    state, epoch = cluster.state("t"), cluster.state_epoch("t")

    def error(leader_epoch: int, partition_epoch: int, *isr: int, recovery: int = 0) -> object:
        wanted = LeaderIsrAndControllerEpoch(1, leader_epoch, isr, 1, recovery)
        found = candidate.run(
            candidate.controller.alter_partition(1, cluster.brokers[1].epoch, {T0: Leadership(wanted, partition_epoch)})
        )
        return found[T0]

    assert error(state.leader_epoch + 1, epoch, 1) == error_codes.NOT_CONTROLLER
    assert error(state.leader_epoch, epoch + 1, 1) == error_codes.NOT_CONTROLLER
    assert error(state.leader_epoch - 1, epoch, 1) == error_codes.FENCED_LEADER_EPOCH
    assert error(state.leader_epoch, epoch - 1, *state.isr) == Leadership(state, epoch)
    assert error(state.leader_epoch, epoch - 1, 1) == error_codes.INVALID_UPDATE_VERSION
    assert error(state.leader_epoch, epoch, 1, recovery=1) == error_codes.INVALID_REQUEST
    assert error(state.leader_epoch, epoch, 1, 3) == error_codes.INELIGIBLE_REPLICA
    changed = error(state.leader_epoch, epoch, 1)
    assert isinstance(changed, Leadership)
    assert (changed.state.isr, changed.partition_epoch, cluster.state_epoch("t")) == ((1,), epoch + 1, epoch + 1)
    stale = candidate.run(candidate.controller.alter_partition(1, 1, {}))
    assert stale == error_codes.STALE_BROKER_EPOCH


def test_an_isr_that_was_written_although_its_answer_was_lost_is_granted() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.settle()
    ask = candidate.session.ask

    def ask_twice(operation: Operation) -> Any:
        """Send an operation again, as after a lost connection; its second answer arrives."""
        ask(operation)
        return ask(operation)

    candidate.session.ask = ask_twice  # type: ignore[method-assign]
    outcome = alter_isr(cluster, candidate, 1, 1, 2)
    assert outcome == {T0: Leadership(LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=1), 1)}
    candidate.session.ask = ask  # type: ignore[method-assign]
    outcome = alter_isr(cluster, candidate, 1, 1, 2, 3)
    assert outcome == {T0: Leadership(LeaderIsrAndControllerEpoch(1, 0, (1, 2, 3), controller_epoch=1), 2)}


def test_a_broker_that_shuts_down_hands_over_what_it_leads() -> None:
    cluster = Cluster()
    candidate = cluster.candidate(3)
    cluster.create_topic("t", [[1, 2], [2, 1], [1]])
    cluster.settle()
    remaining = candidate.run(candidate.controller.controlled_shutdown(1, cluster.brokers[1].epoch))
    assert remaining == []
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(2, 1, (2,), controller_epoch=1)
    assert cluster.state("t", 1) == LeaderIsrAndControllerEpoch(2, 1, (2,), controller_epoch=1)
    assert cluster.state("t", 2).leader == 1
    assert candidate.run(candidate.controller.controlled_shutdown(1, 1)) == error_codes.STALE_BROKER_EPOCH
    assert candidate.run(candidate.controller.controlled_shutdown(9, 1)) == error_codes.BROKER_NOT_AVAILABLE


def test_leaders_return_to_preferred_replicas_beyond_the_threshold() -> None:
    cluster = Cluster()
    candidate = cluster.candidate(3)
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    alter_isr(cluster, candidate, 2, 2, 1)
    assert cluster.state("t").leader == 2
    assert candidate.run(candidate.controller.elect_leaders([T0], ElectionType.PREFERRED)) == {T0: error_codes.NONE}
    assert cluster.state("t").leader == 1
    assert candidate.run(candidate.controller.elect_leaders([T0], ElectionType.PREFERRED)) == {
        T0: error_codes.ELECTION_NOT_NEEDED
    }


def test_a_replica_in_a_failed_directory_does_not_lead() -> None:
    cluster = Cluster()
    cluster.candidate(3)
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    cluster.brokers[1].failed.add(T0)
    cluster.admin.ask(
        Create(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", requests.encode_log_dir_failure(1), is_sequential=True)
    )
    cluster.settle()
    assert cluster.state("t") == LeaderIsrAndControllerEpoch(2, 1, (2,), controller_epoch=1)
    assert cluster.children(paths.LOG_DIR_EVENTS) == []


def test_each_report_of_a_failed_directory_is_heard() -> None:
    cluster = Cluster()
    cluster.candidate(3)
    for name in ("t", "u"):
        cluster.create_topic(name, [[1, 2]])
        cluster.settle()
    for name, leaders in (("t", (2, 1)), ("u", (2, 2))):
        cluster.brokers[1].failed.add(TopicPartition(name, 0))
        cluster.write(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", requests.encode_log_dir_failure(1), is_sequential=True)
        cluster.settle()
        assert (cluster.state("t").leader, cluster.state("u").leader) == leaders
        assert cluster.children(paths.LOG_DIR_EVENTS) == [], "and the report is removed"


def test_a_topic_that_was_deleted_may_be_created_again() -> None:
    cluster = Cluster()
    cluster.candidate(3)
    for replicas in ([[1, 2]], [[2, 1], [1, 2]]):
        cluster.create_topic("t", replicas)
        cluster.settle()
        assert [cluster.state("t", number).leader for number in range(len(replicas))] == [each[0] for each in replicas]
        cluster.delete_topic("t")
        cluster.settle()
        assert not cluster.is_there(paths.topic("t"))


def test_another_controller_takes_over_and_finishes_what_was_begun() -> None:
    cluster = Cluster()
    one, two = cluster.candidate(1), cluster.candidate(2)
    cluster.create_topic("t", [[1, 2], [2, 1]])
    cluster.settle()
    one.run(one.controller.alter_reassignments({T0: (3,)}))
    cluster.delete_topic("u")
    cluster.server.expire(one.session.session_id)
    one.controller.abdicate()
    cluster.candidates.remove(one)
    cluster.settle()
    assert two.controller.is_active
    assert cluster.admin.ask(Get(paths.CONTROLLER_EPOCH)).data == b"2"
    assert list(two.controller.list_reassignments()) == [T0]
    assert cluster.children(paths.DELETE_TOPICS) == []
    alter_isr(cluster, two, cluster.state("t").leader, 1, 2, 3)
    assert cluster.assignment("t").replicas == {0: (3,), 1: (2, 1)}


def test_a_controller_that_was_replaced_while_it_stood_still_writes_nothing_more() -> None:
    cluster = Cluster()
    one, two = cluster.candidate(1), cluster.candidate(2)
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    cluster.remove(paths.CONTROLLER)
    one.session.events.clear()  # it does not hear of it yet
    cluster.candidates.remove(one)
    cluster.settle()
    assert two.controller.is_active
    before = cluster.state("t")
    one.run(one.controller.controlled_shutdown(1, cluster.brokers[1].epoch))
    assert not one.controller.is_active
    assert cluster.state("t") == before


def test_a_replaced_controller_is_noticed_in_the_middle_of_an_event() -> None:
    cluster = Cluster()
    one, two = cluster.candidate(1), cluster.candidate(2)
    cluster.create_topic("t", [[1, 2]])

    def replace() -> None:
        one.on_step = lambda: None
        cluster.remove(paths.CONTROLLER)
        two.catch_up()

    one.on_step = replace
    one.catch_up()
    assert not one.controller.is_active
    cluster.settle()
    assert two.controller.is_active
    assert cluster.state("t").controller_epoch == 2


def test_blocks_of_producer_ids_follow_one_another() -> None:
    cluster = Cluster()
    candidate = cluster.candidate()
    epoch = cluster.brokers[2].epoch
    one = candidate.run(candidate.controller.allocate_producer_ids(2, epoch))
    two = candidate.run(candidate.controller.allocate_producer_ids(2, epoch))
    assert ((one.start, one.end), (two.start, two.end)) == ((0, 1000), (1000, 2000))
    assert candidate.run(candidate.controller.allocate_producer_ids(2, 1)) == error_codes.STALE_BROKER_EPOCH
    assert candidate.run(candidate.controller.allocate_producer_ids(9, 1)) == error_codes.BROKER_ID_NOT_REGISTERED
