"""Bugs planted in the quorum's rules: the random simulation has to find each of them within a few lives."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from quorum_world import Faults, World

from kpybroker.machines.raft import leading, voting
from kpybroker.machines.raft.answering import Answering
from kpybroker.machines.raft.errors import QuorumBroken
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.quorum_state import QuorumState
from kpybroker.machines.raft.roles import NO_NODE, ElectionState

LIVES = 60
Plant = Callable[[pytest.MonkeyPatch], None]


def a_vote_for_another_is_not_saved(patch: pytest.MonkeyPatch) -> None:
    save = QuorumState._save

    def forgetful(self: QuorumState, election: ElectionState) -> None:
        if election.voted_id in (NO_NODE, self.local.id):
            save(self, election)

    patch.setattr(QuorumState, "_save", forgetful)


def the_leader_of_an_older_epoch_is_followed(patch: pytest.MonkeyPatch) -> None:
    def note_leader(self: QuorumState, epoch: int, leader_id: int, now_ms: float) -> None:
        if leader_id in (NO_NODE, self.local.id):
            if epoch > self.epoch:
                self._unattach(epoch, now_ms)
        elif epoch != self.epoch or self.leader_id == NO_NODE:
            self._follow(epoch, leader_id, now_ms)

    patch.setattr(QuorumState, "_note_leader", note_leader)
    patch.setattr(Answering, "_wrong_claim", lambda *_: 0)


def the_leader_counts_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    advance = Answering._advance

    def hasty(self: Answering, leader: Any, now_ms: float) -> None:
        leader.synced_offset = self.next_offset
        advance(self, leader, now_ms)

    patch.setattr(Answering, "_advance", hasty)


def a_follower_acknowledges_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogView, "is_durable", property(lambda self: not self.is_truncating))


def a_node_votes_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(voting, "_grants_for_good", lambda _role, _vote, is_complete: is_complete)


def a_candidate_without_records_is_elected(patch: pytest.MonkeyPatch) -> None:
    would_grant = voting.would_grant
    patch.setattr(
        voting, "would_grant", lambda role, vote, end: would_grant(role, vote, end._replace(offset=0, epoch=0))
    )


def half_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leading, "_reached_by_majority", lambda values: sorted(values, reverse=True)[max(len(values) // 2 - 1, 0)]
    )


def logs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogView, "diverging", lambda self, offset, _epoch: None if offset <= self.next_offset else self.end)


def answers_to_an_older_role_count(patch: pytest.MonkeyPatch) -> None:
    answered = Quorum._answered

    def trusting(self: Quorum, node_id: int, request: Any, response: Any, now_ms: float) -> None:
        self._talks._awaited[node_id] = request
        answered(self, node_id, request, response, now_ms)

    patch.setattr(Quorum, "_answered", trusting)


PLANTS = [
    a_vote_for_another_is_not_saved,
    the_leader_of_an_older_epoch_is_followed,
    the_leader_counts_what_it_has_not_synced,
    a_follower_acknowledges_what_it_has_not_synced,
    a_node_votes_twice,
    a_candidate_without_records_is_elected,
    half_is_a_majority,
    logs_are_not_compared,
    answers_to_an_older_role_count,
]


def live(seed: int) -> None:
    """One random life, as in `test_quorum_of_many`."""
    world = World(seed, size=3 + 2 * (seed % 2), faults=Faults.drawn(Random(seed)), observers=seed % 3 == 0)
    for _ in range(400):
        world.append()
        world.run(world.rng.uniform(0, 60))


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.__name__ for plant in PLANTS])
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(LIVES):
        try:
            live(seed)
        except (AssertionError, QuorumBroken):
            return
    pytest.fail(f"{LIVES} lives did not show it")
