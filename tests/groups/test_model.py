"""Many members that come, go, restart and misbehave, on a log that sometimes lags or refuses: what always holds."""

from collections.abc import Iterator
from itertools import count

import pytest
from group_world import GroupWorld, Ticket, subscription
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpywire import error_codes

PARTITIONS = 6
GROUPS = ("g", "h")
SESSIONS_MS = st.sampled_from((6_000, 10_000, 45_000))
REBALANCES_MS = st.sampled_from((5_000, 60_000))
PROTOCOLS = st.sampled_from(
    ({"range": subscription("t")}, {"sticky": b"", "range": b"x"}, {"range": b"y", "zone": b""})
)
LONGEST_WAIT_MS = 1_000_000


class Members(RuleBasedStateMachine):
    """Two groups; ids are what the coordinator gave out, tickets what members wait for."""

    ids = Bundle("ids")
    joins = Bundle("joins")

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(initial_rebalance_delay_ms=3_000, max_size=5)
        self.generations = dict.fromkeys(GROUPS, 0)
        self.assigned: dict[tuple[str, int], dict[str, bytes]] = {}
        self.syncs: list[tuple[str, int, str, Ticket, dict[str, bytes]]] = []
        self.sent: dict[tuple[str, int], dict[str, bytes]] = {}
        self.numbers = count()

    @initialize(target=ids, size=st.integers(1, 4))
    def begin(self, size: int) -> object:
        """A group that has come up already."""
        joins = [self.world.new_member() for _ in range(size)]
        self.world.advance(6_000)
        for member_id, ticket in sorted(joins, key=lambda each: bool(each[1].response.members)):
            self._sync("g", member_id, None, 1, ticket.response.members)
        assert self.world.describe().group_state == "Stable"
        return multiple(*(("g", member_id, None) for member_id, _ in joins))

    @rule(target=ids, group_id=st.sampled_from(GROUPS), session_ms=SESSIONS_MS, protocols=PROTOCOLS)
    def come(self, group_id: str, session_ms: int, protocols: dict[str, bytes]) -> object:
        ticket = self.world.join(group_id=group_id, session_ms=session_ms, protocols=protocols)
        self.world.commit_log()
        if isinstance(ticket.response, int) or ticket.error != error_codes.MEMBER_ID_REQUIRED:
            return multiple()
        return group_id, ticket.response.member_id, None

    @rule(
        target=joins,
        group_id=st.sampled_from(GROUPS),
        instance_id=st.sampled_from(("i", "j")),
        session_ms=SESSIONS_MS,
        rebalance_ms=REBALANCES_MS,
        protocols=PROTOCOLS,
        version=st.sampled_from((5, 8, 9)),
    )
    def come_as_static_member(
        self,
        group_id: str,
        instance_id: str,
        session_ms: int,
        rebalance_ms: int,
        protocols: dict[str, bytes],
        version: int,
    ) -> object:
        ticket = self.world.join(
            group_id=group_id,
            instance_id=instance_id,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
            protocols=protocols,
            version=version,
        )
        return group_id, instance_id, ticket

    @rule(target=joins, group_id=st.sampled_from(GROUPS), protocols=PROTOCOLS, version=st.sampled_from((0, 3)))
    def come_with_an_old_client(self, group_id: str, protocols: dict[str, bytes], version: int) -> object:
        return group_id, None, self.world.join(group_id=group_id, protocols=protocols, version=version)

    @rule(target=joins, identity=ids, session_ms=SESSIONS_MS, rebalance_ms=REBALANCES_MS, protocols=PROTOCOLS)
    def join(
        self, identity: tuple[str, str, str | None], session_ms: int, rebalance_ms: int, protocols: dict[str, bytes]
    ) -> object:
        group_id, member_id, instance_id = identity
        ticket = self.world.join(
            member_id,
            group_id=group_id,
            instance_id=instance_id,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
            protocols=protocols,
        )
        return group_id, instance_id, ticket

    @rule(target=ids, joined=joins)
    def learn_of_the_generation(self, joined: tuple[str, str | None, Ticket]) -> object:
        """Take up the answer of a join: the id, and as its leader the assignment, which is sent at once."""
        group_id, instance_id, ticket = joined
        if not ticket.is_answered or isinstance(ticket.response, int) or ticket.error:
            return multiple()
        response = ticket.response
        self._sync(group_id, response.member_id, instance_id, response.generation_id, response.members)
        return group_id, response.member_id, instance_id

    @rule(group_id=st.sampled_from(GROUPS), waits_ms=st.sampled_from((0, 6_000)), leader_first=st.booleans())
    def settle(self, group_id: str, waits_ms: int, leader_first: bool) -> None:
        """All who are there do what they should, in this order."""
        classic = self.world.awake(group_id)
        if classic is None:
            return
        instances = {member_id: instance_id for instance_id, member_id in classic.static_members.items()}
        ids = (*classic.members, *classic.pending_members)
        tickets = [
            (each, self.world.join(each, group_id=group_id, instance_id=instances.get(each), rebalance_ms=60_000))
            for each in ids
        ]
        self.world.advance(waits_ms)
        answered = [(identity, ticket.response) for identity, ticket in tickets if ticket.is_answered]
        joined = [(identity, response) for identity, response in answered if not isinstance(response, int)]
        for identity, response in sorted(joined, key=lambda each: bool(each[1].members) != leader_first):
            if response.error_code == error_codes.NONE:
                self._sync(group_id, identity, instances.get(identity), response.generation_id, response.members)

    @rule(identity=ids)
    def sync(self, identity: tuple[str, str, str | None]) -> None:
        group_id, member_id, instance_id = identity
        self._sync(group_id, member_id, instance_id, self.generations[group_id], [])

    def _sync(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int, members: list[object]
    ) -> None:
        assignments = {
            each.member_id: bytes(range(number, PARTITIONS, len(members)))  # type: ignore[attr-defined]
            for number, each in enumerate(members)
        }
        ticket = self.world.sync(member_id, generation_id, assignments, group_id=group_id, instance_id=instance_id)
        self.syncs.append((group_id, generation_id, member_id, ticket, assignments))

    @rule(identity=ids)
    def heartbeat(self, identity: tuple[str, str, str | None]) -> None:
        group_id, member_id, instance_id = identity
        self.world.heartbeat_ticket(member_id, self.generations[group_id], group_id=group_id, instance_id=instance_id)

    @rule(identity=ids)
    def leave(self, identity: tuple[str, str, str | None]) -> None:
        group_id, member_id, instance_id = identity
        self.world.leave_ticket((member_id, instance_id), group_id=group_id)

    @rule(identity=ids, partition=st.integers(0, 2), transactional=st.booleans())
    def commit(self, identity: tuple[str, str, str | None], partition: int, transactional: bool) -> None:
        group_id, member_id, instance_id = identity
        offsets = {("t", partition): next(self.numbers)}
        generation_id = self.generations[group_id]
        if transactional:
            self.world.commit_in_transaction_ticket(7, offsets, member_id, generation_id, group_id=group_id)
        else:
            self.world.commit_ticket(offsets, member_id, generation_id, group_id=group_id, instance_id=instance_id)

    @rule(group_id=st.sampled_from(GROUPS), partition=st.integers(0, 2))
    def commit_by_hand(self, group_id: str, partition: int) -> None:
        self.world.commit_ticket({("t", partition): next(self.numbers)}, group_id=group_id)

    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        self.world.end_transaction(7, commit)

    @rule(milliseconds=st.sampled_from((0, 1, 3_000, 6_000, 60_000)))
    def wait(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def expire(self) -> None:
        self.world.expire()

    @rule(group_id=st.sampled_from(GROUPS))
    def delete(self, group_id: str) -> None:
        self.world.delete_ticket(group_id)

    @rule()
    def let_the_log_lag(self) -> None:
        self.world.commits_at_once = False

    @rule()
    def let_the_log_catch_up(self) -> None:
        self.world.commits_at_once = True
        self.world.commit_log()

    @rule(refuses=st.booleans())
    def let_the_log_refuse(self, refuses: bool) -> None:
        self.world.refuses_appends = refuses

    @rule()
    def restart(self) -> None:
        self.world.refuses_appends = False
        self.world.restart()

    def classics(self) -> Iterator[ClassicGroup]:
        for group_id in self.world.groups:
            classic = self.world.awake(group_id)
            if classic is not None:
                yield classic

    @invariant()
    def every_request_is_answered_at_most_once(self) -> None:
        assert all(len(ticket.answers) <= 1 for ticket in self.world.tickets)

    @invariant()
    def generations_never_go_back(self) -> None:
        for classic in self.classics():
            recorded = classic.recorded
            assert recorded is None or classic.generation_id >= recorded.generation
        for group_id in GROUPS:
            group = self.world.groups.get(group_id)
            classic = self.world.awake(group_id)
            self.generations[group_id] = classic.generation_id if classic else 0
            if group is None:
                self.sent.clear()
                self.assigned.clear()

    @invariant()
    def every_partition_has_one_owner_as_the_leader_decided(self) -> None:
        answered = [each for each in self.syncs if each[3].is_answered]
        self.syncs = [each for each in self.syncs if not each[3].is_answered]
        given = [each for each in answered if not isinstance(each[3].response, int) and not each[3].error]
        for group_id, generation_id, _, _, assignments in given:
            # What was answered before came of a first request of the leader, which may have assigned nothing.
            if assignments and (group_id, generation_id) not in self.assigned:
                self.sent.setdefault((group_id, generation_id), assignments)
        for group_id, generation_id, member_id, ticket, _ in given:
            assignment = ticket.response.assignment
            sent = self.sent.get((group_id, generation_id), {})
            assert member_id not in sent or assignment == sent[member_id]
            notified = self.assigned.setdefault((group_id, generation_id), {})
            notified[member_id] = assignment
            partitions = [partition for each in notified.values() for partition in each]
            assert len(partitions) == len(set(partitions))

    @invariant()
    def what_is_counted_is_so(self) -> None:
        for classic in self.classics():
            members = classic.members.values()
            assert classic.awaiting_joins == sum(each.awaiting_join is not None for each in members)
            assert classic.static_members == {
                each.group_instance_id: each.member_id for each in members if each.group_instance_id is not None
            }
            names = {name for each in members for name, _ in each.protocols}
            assert classic.supporters == {name: sum(name in dict(each.protocols) for each in members) for name in names}
            assert classic.leader_id is None if not members else classic.leader_id in classic.members
            assert classic.pending_sync <= set(classic.members)
            assert not set(classic.pending_members) & set(classic.members)

    @invariant()
    def whoever_is_waited_for_has_a_deadline(self) -> None:
        for classic in self.classics():
            for member in classic.members.values():
                assert member.is_alive or member.session.deadline_ms is not None
            assert all(timer.deadline_ms is not None for timer in classic.pending_members.values())
            if classic.state is ClassicGroupState.PREPARING_REBALANCE:
                assert classic.join_timer is not None
                assert classic.join_timer.deadline_ms is not None
            if classic.pending_sync:
                assert classic.sync_timer is not None
                assert classic.sync_timer.deadline_ms is not None
        deadline_ms = self.world.coordinator.next_deadline_ms()
        live = [each[2].deadline_ms for each in self.world.coordinator.shard.timers._heap if each[2].deadline_ms]
        assert not live or (deadline_ms is not None and deadline_ms <= min(live))

    @invariant()
    def a_replay_of_the_log_ends_here(self) -> None:
        replayed = GroupWorld.__new__(GroupWorld)
        replayed.__dict__.update(self.world.__dict__)
        replayed.log = list(self.world.log)
        replayed.refuses_appends = False
        replayed._open(replayed.log)
        assert durable(replayed.coordinator) == durable(self.world.coordinator)

    def teardown(self) -> None:
        """In the end nobody waits."""
        self.let_the_log_catch_up()
        self.world.refuses_appends = False
        self.world.advance(LONGEST_WAIT_MS)
        refused = [ticket for ticket in self.world.tickets if not ticket.is_answered]
        assert not refused
        assert all(classic.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD) for classic in self.classics())


def durable(coordinator: GroupCoordinator) -> dict[str, object]:
    found: dict[str, object] = {
        group_id: (getattr(group.membership, "recorded", None), group.offsets, group.pending)
        for group_id, group in coordinator.shard.groups.items()
        if not group.is_unknown
    }
    return {**found, "": coordinator.shard.open_transactions}


@pytest.mark.slow
def test_the_invariants_of_a_group_hold() -> None:
    run_state_machine_as_test(Members, settings=settings(max_examples=100, stateful_step_count=50, deadline=None))
