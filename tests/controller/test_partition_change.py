"""The rules of elections, held for every change: who may lead, when epochs rise, who stays eligible."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.controller.partition_change import Election, PartitionChange
from kpybroker.machines.metadata.topic import NO_LEADER, NO_LEADER_CHANGE, RECOVERED, RECOVERING, Partition

ID = b"t" * 16


def change_of(
    partition: Partition,
    up: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    min_isr: int = 1,
    elr: bool = False,
    level: int = 30,
    may_lead: Callable[[int], bool] | None = None,
) -> PartitionChange:
    return PartitionChange(
        ID,
        0,
        partition,
        level=level,
        min_isr=min_isr,
        elr_enabled=elr,
        may_lead=may_lead or (lambda broker_id: broker_id in up),
        default_directory=lambda broker_id: bytes([broker_id]) * 16,
    )


def partition(replicas: Sequence[int], isr: Sequence[int], leader: int, **fields: object) -> Partition:
    directories = [bytes([replica]) * 16 for replica in replicas]
    return Partition(replicas, isr, leader, directories=directories, **fields)  # type: ignore[arg-type]


def test_a_change_without_effect_is_no_record() -> None:
    assert change_of(partition([1, 2], [1, 2], 1)).build() is None


def test_a_shrinking_isr_keeps_the_leader_and_its_epoch() -> None:
    change = change_of(partition([1, 2, 3], [1, 2, 3], 1))
    change.isr = [1, 3]
    record = change.build()
    assert record is not None
    assert (record.isr, record.leader) == ([1, 3], NO_LEADER_CHANGE)


def test_before_3_6_a_shrinking_isr_raised_the_leader_epoch() -> None:
    change = change_of(partition([1, 2, 3], [1, 2, 3], 1), level=11)
    change.isr = [1, 3]
    record = change.build()
    assert record is not None
    assert record.leader == 1


def test_the_next_in_sync_replica_leads_when_the_leader_goes() -> None:
    change = change_of(partition([1, 2, 3], [1, 3], 1), up=[2, 3])
    change.isr = [3]
    record = change.build()
    assert record is not None
    assert (record.leader, record.isr) == (3, [3])


def test_without_a_live_in_sync_replica_there_is_no_leader_and_the_isr_stays() -> None:
    change = change_of(partition([1, 2], [1], 1), up=[2])
    change.isr = []
    record = change.build()
    assert record is not None
    assert (record.leader, record.isr) == (NO_LEADER, None)


def test_an_unclean_leader_is_alone_in_sync_and_recovers() -> None:
    change = change_of(partition([1, 2, 3], [1], 1), up=[2, 3])
    change.isr = []
    change.election = Election.UNCLEAN
    record = change.build()
    assert record is not None
    assert (record.leader, record.isr, record.leader_recovery_state) == (2, [2], RECOVERING)


def test_the_preferred_leader_is_elected_when_it_is_in_sync() -> None:
    change = change_of(partition([1, 2], [2, 1], 2))
    change.election = Election.PREFERRED
    record = change.build()
    assert record is not None
    assert record.leader == 1
    change = change_of(partition([1, 2], [2], 2))
    change.election = Election.PREFERRED
    assert change.build() is None


def test_a_reassignment_completes_when_all_that_stay_are_in_sync() -> None:
    moving = partition([4, 1, 2], [1, 2], 1, adding_replicas=[4], removing_replicas=[1])
    change = change_of(moving)
    change.isr = [1, 2, 4]
    record = change.build()
    assert record is not None
    assert (record.replicas, record.isr) == ([4, 2], [2, 4])
    assert (record.adding_replicas, record.removing_replicas) == ([], [])
    assert record.leader == 4
    assert record.directories == [bytes([4]) * 16, bytes([2]) * 16]


def test_a_leader_that_stays_gets_a_new_epoch_when_a_replica_leaves() -> None:
    moving = partition([1, 2, 3], [1, 2, 3], 1, removing_replicas=[3])
    change = change_of(moving)
    record = change.build()
    assert record is not None
    assert (record.leader, record.replicas) == (1, [1, 2])


def test_a_new_replica_gets_the_default_directory_and_an_assigned_one_keeps_its_own() -> None:
    change = change_of(partition([1], [1], 1))
    change.replicas = [1, 5]
    change.adding = [5]
    change.assign_directories({1: b"x" * 16})
    record = change.build()
    assert record is not None
    assert record.directories == [b"x" * 16, bytes([5]) * 16]


def test_below_min_isr_former_in_sync_replicas_stay_eligible() -> None:
    change = change_of(partition([1, 2, 3], [1, 2, 3], 1), elr=True, min_isr=2)
    change.isr = [1]
    record = change.build()
    assert record is not None
    assert (record.isr, record.eligible_leader_replicas) == ([1], [2, 3])


def test_an_unclean_stop_costs_eligibility() -> None:
    change = change_of(partition([1, 2, 3], [1, 2, 3], 1), elr=True, min_isr=2)
    change.isr = [1]
    change.unclean_shutdown_replicas = [3]
    record = change.build()
    assert record is not None
    assert record.eligible_leader_replicas == [2]


def test_an_eligible_replica_leads_when_no_replica_is_in_sync() -> None:
    change = change_of(partition([1, 2, 3], [1], 1, elr=[2]), up=[2, 3], elr=True, min_isr=2)
    change.isr = []
    record = change.build()
    assert record is not None
    assert (record.leader, record.isr, record.eligible_leader_replicas) == (2, [2], [1])
    assert record.leader_recovery_state == -1


def test_the_last_known_leader_leads_uncleanly_when_no_other_replica_can() -> None:
    change = change_of(partition([1, 2], [1], 1), up=[2], elr=True, min_isr=1)
    change.isr = []
    change.unclean_shutdown_replicas = [1]
    gone = change.build()
    assert gone is not None
    assert (gone.leader, gone.isr, gone.last_known_elr) == (NO_LEADER, [], [1])
    empty = partition([1, 2], [1], 1).merge(gone)
    back = change_of(empty, up=[1, 2], elr=True).build()
    assert back is not None
    assert (back.leader, back.isr, back.leader_recovery_state, back.last_known_elr) == (1, [1], RECOVERING, [])


def test_a_removed_replica_is_not_eligible_and_does_not_block_the_last_leader() -> None:
    was = partition([2, 3, 1], [1, 2], 2, adding_replicas=[2], removing_replicas=[1])
    done = change_of(was, elr=True, min_isr=2).build()
    assert done is not None
    assert (done.replicas, done.isr, was.merge(done).elr) == ([2, 3], [2], ())
    as_kafka_leaves_it = partition([2, 3], [], NO_LEADER, elr=[1], last_known_elr=[3])
    record = change_of(as_kafka_leaves_it, elr=True, min_isr=2).build()
    assert record is not None
    assert (record.leader, record.isr) == (3, [3])


IDS = st.integers(1, 5)
UP = st.lists(IDS, unique=True)


@st.composite
def changes(draw: st.DrawFn) -> tuple[PartitionChange, Partition, list[int], bool]:
    replicas = draw(st.lists(IDS, min_size=1, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    elr_enabled = draw(st.booleans())
    elr = draw(st.lists(st.sampled_from(replicas), unique=True)) if elr_enabled else []
    was = partition(
        replicas,
        isr,
        draw(st.sampled_from([*isr, NO_LEADER])),
        elr=[replica for replica in elr if replica not in isr],
        leader_recovery_state=draw(st.sampled_from([RECOVERED, RECOVERING])),
    )
    up = draw(UP)
    change = change_of(was, up, elr=elr_enabled, min_isr=draw(st.integers(1, 3)), level=draw(st.sampled_from([11, 30])))
    change.isr = draw(st.lists(st.sampled_from(replicas), unique=True))
    change.election = draw(st.sampled_from(Election))
    change.unclean_shutdown_replicas = draw(st.lists(IDS, max_size=1))
    return change, was, up, elr_enabled


@settings(max_examples=400)
@given(changes())
def test_no_change_breaks_the_rules(case: tuple[PartitionChange, Partition, list[int], bool]) -> None:
    change, was, up, elr_enabled = case
    unclean = change.election is Election.UNCLEAN
    wanted_isr = list(change.isr)
    record = change.build()
    if record is None:
        return
    now = was.merge(record)
    assert set(now.isr) <= set(now.replicas)
    assert not set(now.isr) & set(now.elr)
    assert now.isr or elr_enabled or not was.isr
    if now.leader != was.leader and now.leader != NO_LEADER:
        assert now.leader in up
        assert now.leader in now.isr
        clean = now.leader in wanted_isr or now.leader in was.isr or now.leader in was.elr
        assert clean or (unclean and now.isr == (now.leader,) and now.leader_recovery_state == RECOVERING)
    assert now.partition_epoch == was.partition_epoch + 1
    assert now.leader_epoch - was.leader_epoch in (0, 1)
    assert now.leader == was.leader or now.leader_epoch == was.leader_epoch + 1


@pytest.mark.parametrize("election", list(Election))
def test_a_leader_that_can_lead_is_left_alone(election: Election) -> None:
    change = change_of(partition([1, 2], [1, 2], 1))
    change.election = election
    assert change.build() is None
