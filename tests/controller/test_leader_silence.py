"""A voter asks a silent leader before it gives it up, and not while it hears it or has stood still itself."""

from kpybroker.machines.controller.leader_silence import SPARE_MS, LeaderSilence
from kpybroker.machines.controller.suspicion import LATE_MS, LOOK_MS, PROBE_MS, QUIET_MS
from kpybroker.machines.raft.roles import HeardLeader

FETCH_TIMEOUT_MS = 2_000
BEGAN_MS = 100_000.0
LATEST_MS = FETCH_TIMEOUT_MS - PROBE_MS
"""The time after the last answer at which the leader must have been asked."""


def looked(silence: LeaderSilence, now_ms: float, heard_ms: float, until_ms: float) -> float:
    """Look whenever it is due up to a time. Return the time of the look after it."""
    while now_ms <= until_ms:
        now_ms = silence.look(now_ms, HeardLeader(3, heard_ms))
    return now_ms


def test_a_silent_leader_is_asked_in_time_before_it_is_given_up() -> None:
    silence = LeaderSilence(FETCH_TIMEOUT_MS, BEGAN_MS)
    looked(silence, BEGAN_MS, BEGAN_MS, BEGAN_MS + LATEST_MS - SPARE_MS - 1)
    assert silence.asked_ms is None
    looked(silence, BEGAN_MS + LATEST_MS - SPARE_MS, BEGAN_MS, BEGAN_MS + FETCH_TIMEOUT_MS)
    assert silence.asked_ms == BEGAN_MS + LATEST_MS - SPARE_MS
    assert silence.lag_ms == 0


def test_a_leader_that_is_heard_is_looked_at_seldom_and_never_asked() -> None:
    silence = LeaderSilence(FETCH_TIMEOUT_MS, BEGAN_MS)
    now_ms, looks = BEGAN_MS, 0
    while now_ms < BEGAN_MS + 60_000:
        now_ms = silence.look(now_ms, HeardLeader(3, now_ms - now_ms % 500))
        looks += 1
        assert silence.asked_ms is None
    assert looks < 120


def test_a_leader_that_answers_is_asked_again_only_after_another_silence() -> None:
    silence = LeaderSilence(FETCH_TIMEOUT_MS, BEGAN_MS)
    looked(silence, BEGAN_MS, BEGAN_MS, BEGAN_MS + LATEST_MS)
    answered_ms = BEGAN_MS + LATEST_MS + 1
    silence.answered(answered_ms)
    assert silence.asked_ms is None
    looked(silence, answered_ms, BEGAN_MS, answered_ms + LATEST_MS - SPARE_MS - 1)
    assert silence.asked_ms is None
    looked(silence, answered_ms + LATEST_MS - SPARE_MS, BEGAN_MS, answered_ms + LATEST_MS)
    assert silence.asked_ms is not None


def test_a_voter_that_stood_still_asks_again() -> None:
    silence = LeaderSilence(FETCH_TIMEOUT_MS, BEGAN_MS)
    due_ms = looked(silence, BEGAN_MS, BEGAN_MS, BEGAN_MS + LATEST_MS)
    late_ms = due_ms + LATE_MS + 1
    silence.look(late_ms, HeardLeader(3, BEGAN_MS))
    assert silence.asked_ms == late_ms


def test_the_lateness_of_looks_since_the_question_is_known() -> None:
    silence = LeaderSilence(FETCH_TIMEOUT_MS, BEGAN_MS)
    due_ms = looked(silence, BEGAN_MS, BEGAN_MS, BEGAN_MS + LATEST_MS - SPARE_MS)
    due_ms = silence.look(due_ms + 120, HeardLeader(3, BEGAN_MS))
    silence.look(due_ms + 70, HeardLeader(3, BEGAN_MS))
    assert silence.lag_ms == 120


def test_nothing_is_asked_without_a_leader_or_within_a_short_timeout() -> None:
    silence = LeaderSilence(100, BEGAN_MS)
    assert silence.look(BEGAN_MS, None) == BEGAN_MS + QUIET_MS
    assert silence.asked_ms is None
    due_ms = silence.look(BEGAN_MS + QUIET_MS, HeardLeader(3, BEGAN_MS + 1))
    assert silence.asked_ms is None
    assert due_ms == BEGAN_MS + QUIET_MS + LOOK_MS
    silence.look(due_ms, HeardLeader(3, BEGAN_MS + 1))
    assert silence.asked_ms == due_ms
