"""A controller fences a broker before its session ends if its peers lost it too, and never one that was only slow."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.controller.heartbeats import BrokerSession, SilenceReport
from kpybroker.machines.controller.suspicion import (
    LOOK_MS,
    LOST_MS,
    PROBE_MS,
    QUIET_MS,
    REST_MS,
    SLOW_MS,
    TOGETHER_MS,
    BrokerPeers,
    EarlyFencing,
    Suspicions,
)

SUSPECT = BrokerSession(1, 10)
OTHERS = (BrokerSession(2, 20), BrokerSession(3, 30))
CONTROLLER = 9
FETCH_MS = 500


class Watched:
    """Brokers 1 to 3 with partitions of one another, and a controller that looks at them every 250 ms."""

    def __init__(self, peers: BrokerPeers = BrokerPeers(frozenset({2, 3}), frozenset({2, 3}))) -> None:  # noqa: B008
        self.now_ms = 100_000.0
        self.suspicions = Suspicions(CONTROLLER, self.now_ms)
        self.signs: dict[BrokerSession, float | None] = dict.fromkeys((SUSPECT, *OTHERS), self.now_ms)
        self.reports: dict[int, Mapping[int, SilenceReport]] = {}
        self.peers = peers
        self.fenced: list[EarlyFencing] = []
        self.probed: set[BrokerSession] = set()
        self.silent: set[BrokerSession] = set()
        self.answers = False
        """Whether the suspect answers probes."""

    def report(self, *reporters: int, ago_ms: int = 0, is_unanswered: bool = True) -> None:
        """Have peers report the suspect, which they lost some time ago."""
        report = SilenceReport(int(self.now_ms) - ago_ms, is_unanswered)
        for reporter in reporters:
            self.reports[reporter] = {SUSPECT.broker_id: report}

    def pass_time(self, duration_ms: int) -> "Watched":
        """Look as often as that takes; brokers that are not silent are heard as they fetch."""
        for _ in range(duration_ms // LOOK_MS):
            self.now_ms += LOOK_MS
            self.look()
        return self

    def look(self) -> None:
        for session, sign in self.signs.items():
            if session not in self.silent and (sign is None or self.now_ms - sign >= FETCH_MS):
                self.signs[session] = self.now_ms
        found = self.suspicions.look(self.now_ms, self.signs, self.reports)
        for session in found.unknown:
            self.suspicions.found(session, self.peers, self.now_ms)
        self.probed.update(found.probed)
        if self.answers:
            for session in found.probed:
                self.suspicions.answered(session, self.now_ms)
        self.fenced += found.fenced
        for each in found.fenced:
            self.signs.pop(each.session)

    def lose(self) -> "Watched":
        """The suspect falls silent."""
        self.silent.add(SUSPECT)
        return self


ENOUGH_MS = QUIET_MS + PROBE_MS + FETCH_MS + 2 * LOOK_MS


def test_a_broker_that_the_controller_and_its_peers_lost_is_fenced() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    watched.pass_time(ENOUGH_MS)
    (fencing,) = watched.fenced
    assert (fencing.session, fencing.reporters, fencing.is_heard) == (SUSPECT, (2, 3), False)
    assert fencing.silent_ms >= QUIET_MS + PROBE_MS


def test_a_lost_broker_that_only_follows_is_fenced_as_soon_as_a_leader() -> None:
    watched = Watched(BrokerPeers(frozenset({2, 3}), frozenset())).pass_time(5_000).lose()
    watched.report(2, 3, is_unanswered=False)
    watched.pass_time(ENOUGH_MS)
    assert [each.session for each in watched.fenced] == [SUSPECT]


def test_a_broker_that_is_not_silent_for_long_is_not_fenced() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    watched.pass_time(QUIET_MS + PROBE_MS - 2 * LOOK_MS)
    assert watched.fenced == []


def test_a_broker_that_answers_the_controller_is_not_fenced_although_its_peers_lost_it() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    watched.answers = True
    watched.pass_time(LOST_MS - LOOK_MS)
    assert watched.probed == {SUSPECT}
    assert watched.fenced == []


def test_a_broker_that_most_of_its_peers_hear_is_not_fenced() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_a_broker_without_any_peers_is_not_fenced() -> None:
    watched = Watched(BrokerPeers(frozenset(), frozenset())).pass_time(5_000).lose()
    watched.report(2, 3)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_peers_that_are_lost_themselves_have_no_say() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.silent.add(OTHERS[0])
    watched.report(3)
    watched.pass_time(ENOUGH_MS)
    assert [each.session for each in watched.fenced] == [SUSPECT]


def test_a_controller_that_hears_no_broker_fences_none() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    watched.silent.update(OTHERS)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_a_report_of_a_peer_that_lost_the_broker_long_before_says_nothing() -> None:
    watched = Watched().pass_time(10_000)
    watched.report(2, 3, ago_ms=8_000, is_unanswered=False)
    watched.lose().pass_time(20_000)
    assert watched.fenced == []


def test_a_controller_that_stood_still_begins_all_over() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    watched.now_ms += 8_000
    watched.look()
    watched.pass_time(QUIET_MS + PROBE_MS - LOOK_MS)
    assert watched.fenced == []
    watched.report(2, 3)
    watched.pass_time(4_000)
    assert [each.session for each in watched.fenced] == [SUSPECT]


def test_a_new_controller_believes_peers_about_a_broker_that_it_never_heard() -> None:
    watched = Watched()
    watched.signs[SUSPECT] = None
    watched.report(2, 3, ago_ms=2_500)
    watched.lose().pass_time(PROBE_MS + LOOK_MS)
    assert [each.session for each in watched.fenced] == [SUSPECT]


def test_a_new_controller_waits_for_a_report_about_a_broker_that_it_never_heard() -> None:
    watched = Watched()
    watched.signs[SUSPECT] = None
    watched.lose().pass_time(20_000)
    assert watched.fenced == []


def test_a_broker_with_longer_pauses_is_suspected_later() -> None:
    watched = Watched()
    for _ in range(5):
        watched.lose().pass_time(1_250)
        watched.silent.clear()
        watched.pass_time(FETCH_MS)
    watched.lose()
    watched.report(2, 3)
    watched.pass_time(ENOUGH_MS)
    assert watched.fenced == []
    watched.pass_time(2_000)
    assert [each.session for each in watched.fenced] == [SUSPECT]


def test_a_broker_that_comes_back_at_once_is_not_fenced_early_for_an_hour() -> None:
    watched = fenced_and_back(after_ms=SLOW_MS // 2)
    watched.lose().report(2, 3)
    watched.pass_time(20_000)
    assert len(watched.fenced) == 1
    watched.now_ms += REST_MS
    watched.reports.clear()
    watched.silent.clear()
    watched.pass_time(30_000).lose().report(2, 3)
    watched.pass_time(ENOUGH_MS)
    assert len(watched.fenced) == 2


def test_a_broker_that_comes_back_later_may_be_fenced_early_again() -> None:
    watched = fenced_and_back(after_ms=2 * SLOW_MS)
    watched.pass_time(2_000).lose().report(2, 3)
    watched.pass_time(ENOUGH_MS)
    assert len(watched.fenced) == 2


def fenced_and_back(after_ms: int) -> Watched:
    """A broker that was fenced early and is heard again after some time."""
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    while not watched.fenced:
        watched.pass_time(LOOK_MS)
    watched.reports.clear()
    watched.pass_time(after_ms)
    watched.silent.clear()
    watched.signs[SUSPECT] = watched.now_ms
    watched.look()
    return watched


def test_other_brokers_are_given_twice_the_time_after_one_was_only_slow() -> None:
    watched = fenced_and_back(after_ms=SLOW_MS // 2)
    other = OTHERS[0]
    watched.peers = BrokerPeers(frozenset({3}), frozenset())
    watched.silent.add(other)
    watched.reports[3] = {other.broker_id: SilenceReport(int(watched.now_ms), True)}
    watched.pass_time(2 * (QUIET_MS + PROBE_MS) - 2 * LOOK_MS)
    assert len(watched.fenced) == 1
    watched.pass_time(FETCH_MS + 4 * LOOK_MS)
    assert [each.session for each in watched.fenced[1:]] == [other]


def test_a_controller_on_a_busy_machine_waits_longer() -> None:
    watched = Watched().pass_time(5_000).lose()
    watched.report(2, 3)
    began_ms = watched.now_ms
    while not watched.fenced:
        watched.now_ms += LOOK_MS + 100
        watched.look()
    assert watched.now_ms - began_ms > ENOUGH_MS


def test_a_leader_that_all_followers_in_sync_lost_is_fenced_although_it_is_heard() -> None:
    watched = Watched().pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(LOST_MS)
    (fencing,) = watched.fenced
    assert (fencing.session, fencing.reporters, fencing.is_heard) == (SUSPECT, (2, 3), True)


def test_a_leader_that_all_followers_in_sync_lost_is_not_fenced_before_that_lasts() -> None:
    watched = Watched().pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(LOST_MS - LOOK_MS)
    assert watched.fenced == []


def test_a_leader_that_has_just_come_back_is_not_fenced_before_its_followers_know_it() -> None:
    watched = Watched().pass_time(5_000)
    watched.answers = True
    watched.lose().report(2, 3)
    watched.pass_time(LOST_MS - LOOK_MS)
    watched.silent.clear()
    watched.pass_time(LOST_MS - LOOK_MS)
    assert watched.fenced == []


def test_a_controller_that_stood_still_waits_for_new_reports_of_followers() -> None:
    watched = Watched().pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(LOOK_MS)
    watched.now_ms += 8_000
    watched.look()
    watched.pass_time(PROBE_MS - LOOK_MS)
    assert watched.fenced == []


def test_followers_that_are_lost_themselves_have_no_say() -> None:
    watched = Watched().pass_time(5_000)
    watched.silent.add(OTHERS[0])
    watched.report(2, 3)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_an_answer_to_a_probe_does_not_help_a_leader_that_is_heard_but_lost_by_its_followers() -> None:
    watched = Watched().pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(PROBE_MS)
    watched.suspicions.answered(SUSPECT, watched.now_ms)
    watched.pass_time(LOST_MS - PROBE_MS)
    assert len(watched.fenced) == 1


def test_a_leader_that_one_follower_in_sync_hears_is_not_fenced_while_it_is_heard() -> None:
    watched = Watched().pass_time(5_000)
    watched.report(2)
    watched.pass_time(20_000)
    watched.report(3, is_unanswered=False)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_a_leader_is_not_fenced_for_the_sake_of_a_single_follower() -> None:
    watched = Watched(BrokerPeers(frozenset({2}), frozenset({2}))).pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_peers_that_have_changed_since_decide() -> None:
    watched = Watched(BrokerPeers(frozenset({2}), frozenset())).pass_time(5_000)
    watched.report(2, 3)
    watched.pass_time(5_000)
    watched.peers = BrokerPeers(frozenset({2, 3}), frozenset({2, 3}))
    watched.pass_time(3_000)
    assert [each.is_heard for each in watched.fenced] == [True]


events = st.lists(
    st.tuples(
        st.sampled_from(("lose", "return", "pause", "report", "retract", "answer", "no-answer")),
        st.sampled_from((2, 3)),
        st.integers(0, 4_000),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=200)
@given(events)
def test_no_broker_is_fenced_that_was_heard_while_it_was_suspected(history: list[tuple[str, int, int]]) -> None:
    watched = Watched(BrokerPeers(frozenset({2, 3}), frozenset()))
    for what, peer, duration_ms in history:
        if what == "lose":
            watched.lose()
        elif what == "return":
            watched.silent.clear()
        elif what == "pause":
            watched.now_ms += duration_ms
        elif what == "report":
            watched.report(peer)
        elif what == "retract":
            watched.reports.pop(peer, None)
        else:
            watched.answers = what == "answer"
        heard_ms = watched.signs.get(SUSPECT)
        before = len(watched.fenced)
        watched.pass_time(duration_ms)
        for fencing in watched.fenced[before:]:
            assert not fencing.is_heard
            assert SUSPECT in watched.silent
            assert not watched.answers
            assert {2, 3} == watched.reports.keys() == set(fencing.reporters)
            assert heard_ms is not None
            assert fencing.silent_ms >= QUIET_MS + PROBE_MS
            return


def lost_leader(*, heard_ago_ms: float = 2_000.0, asked_ago_ms: float = PROBE_MS, lag_ms: float = 0.0) -> Watched:
    """A controller that has just replaced the suspect, which it asked as a voter; the others report it."""
    watched = Watched()
    watched.signs[SUSPECT] = None
    heard_ms, asked_ms = watched.now_ms - heard_ago_ms, watched.now_ms - asked_ago_ms
    watched.suspicions.lost(SUSPECT, heard_ms, asked_ms, lag_ms)
    watched.lose().report(2, 3, ago_ms=1_800)
    watched.look()
    return watched


def test_the_former_leader_of_the_quorum_is_fenced_as_soon_as_its_peers_are_known() -> None:
    watched = lost_leader()
    assert (watched.probed, watched.fenced) == ({SUSPECT}, [])
    watched.pass_time(LOOK_MS)
    (fencing,) = watched.fenced
    assert (fencing.session, fencing.reporters, fencing.is_heard) == (SUSPECT, (2, 3), False)
    assert fencing.silent_ms == 2_000 + LOOK_MS


def test_the_former_leader_has_its_time_to_answer() -> None:
    watched = lost_leader(asked_ago_ms=LOOK_MS).pass_time(PROBE_MS - 2 * LOOK_MS)
    assert watched.fenced == []
    watched.pass_time(LOOK_MS)
    assert len(watched.fenced) == 1


def test_the_former_leader_has_more_time_if_the_voter_was_late() -> None:
    watched = lost_leader(lag_ms=200.0).pass_time(LOOK_MS)
    assert watched.fenced == []
    watched.pass_time(1_000)
    assert len(watched.fenced) == 1


def test_the_former_leader_is_not_fenced_once_it_answers_or_is_heard() -> None:
    answering = lost_leader()
    answering.suspicions.answered(SUSPECT, answering.now_ms)
    heard = lost_leader()
    heard.signs[SUSPECT] = heard.now_ms
    for watched in (answering, heard):
        watched.pass_time(LOOK_MS)
        assert watched.fenced == []


def test_the_former_leader_is_kept_while_most_of_its_peers_hear_it() -> None:
    watched = lost_leader()
    del watched.reports[3]
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_peers_that_lost_the_former_leader_long_before_say_nothing() -> None:
    watched = lost_leader()
    watched.report(2, 3, ago_ms=2_000 + TOGETHER_MS + 1)
    watched.pass_time(20_000)
    assert watched.fenced == []


def test_a_new_controller_that_stood_still_suspects_the_former_leader_all_over() -> None:
    watched = lost_leader()
    watched.now_ms += 8_000
    watched.look()
    watched.pass_time(PROBE_MS - LOOK_MS)
    assert watched.fenced == []
