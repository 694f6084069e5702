"""The sentence on why a group does not get on, for groups of all kinds and for readers without one."""

from typing import Any

import pytest

from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import MemberRow, PositionRow, RecordPlace, ShareRow
from kpybroker.machines.console.stuck_shares import LONG_S, OFTEN, ShareFacts, verdict_on_shares
from kpybroker.machines.console.stuck_streams import Handover, StreamsFacts, verdict_on_streams
from kpybroker.machines.groups.facts import OWES_JOIN, OWES_SYNC, WAITS


def member(
    client: str, state: str = "", assigned: tuple[str, ...] = ("t-0",), silent_s: float | None = 1.0
) -> MemberRow:
    return MemberRow(f"{client}-1", None, client, "10.0.0.1", assigned, state, silent_s)


def position(**changes: Any) -> PositionRow:
    usual = {
        "topic": "t",
        "partition": 0,
        "committed": 5,
        "commit_ms": 1_000,
        "metadata": "",
        "end_offset": 9,
        "stable_offset": 9,
        "lag": 4,
        "lag_s": 1.0,
        "member": "ann",
        "fetched": 9,
        "fetched_s": 0.1,
        "start_offset": 0,
    }
    return PositionRow(**{**usual, **changes})


NEVER = position(committed=None, commit_ms=None, lag=None, lag_s=None, fetched=None, fetched_s=None)
"""A partition of a member that has neither fetched nor committed anything."""


OF_LOG = "its log has 9 offsets, and auto.offset.reset says where it begins"
SENT = "ann reads t-0, and has never committed there: it was sent the records before 9, and the log ends at 9."


def verdict(state: str = "Stable", **changes: Any) -> tuple[bool, str]:
    usual = {
        "members": [member("ann", assigned=("t-0",))],
        "positions": [position()],
        "open_transactions": {},
        "lost_members": 0,
        "now_ms": 2_000,
    }
    return stuck.verdict_on(stuck.ReadingFacts(state=state, **{**usual, **changes}))[:2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": "PreparingRebalance", "members": [member("ann", OWES_JOIN)]}, "until ann at 10.0.0.1 rejoins"),
        ({"state": "CompletingRebalance", "members": [member("ann", OWES_SYNC)]}, "until ann at 10.0.0.1 syncs"),
        ({"state": "PreparingRebalance", "members": []}, "waits a moment for more members"),
        ({"state": "Empty", "members": [], "positions": [position(fetched=None)]}, "nobody reads the 4 records"),
        ({"positions": [position(start_offset=7)]}, "position 5 of t-0 are deleted; the log begins at 7"),
        ({"lost_members": 3}, "3 members were lost while its position stayed at 5 of t-0"),
        ({"positions": [], "lost_members": 3}, "3 members were lost, and it has committed nothing"),
        ({"positions": [position(member=None)]}, "No member has t-0"),
        ({"positions": [position(fetched=None)], "now_ms": 60_000}, "does not fetch it: it is paused"),
        ({"now_ms": 60_000}, "has not committed for 59 s"),
        ({"still_s": {("t", 0): 40.0}}, "reads t-0, and commits 5 again and again"),
        ({"positions": [NEVER], "assigned_ms": 1_000, "now_ms": 45_000}, "ann has t-0 and does not fetch it"),
        ({"positions": [NEVER], "assigned_ms": None, "now_ms": 45_000}, "Its log has 9 offsets"),
        ({"positions": [position(committed=9, fetched=9, fetched_s=40.0, end_offset=99, lag=90)]}, "90 records wait"),
        ({"positions": [position(committed=None, commit_ms=None, lag=None, fetched_s=31.0)]}, "does not fetch"),
        (
            {"positions": [position(fetched_s=31.0, end_offset=99)], "still_s": {("t", 0): 31.0}},
            "ann has t-0 and does not fetch it",
        ),
    ],
)
def test_a_stuck_group_is_explained_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    is_stuck, line = verdict(**changes)
    assert is_stuck
    assert words in line


def test_an_open_transaction_that_holds_readers_back_is_named() -> None:
    pinned = {("t", 0): stuck.OpenTransaction(77, "payments", 6)}
    is_stuck, line = verdict(open_transactions=pinned, positions=[position(stable_offset=6, fetched=6)])
    assert is_stuck
    assert "An open transaction of payments, since offset 6 of t-0" in line
    assert not verdict(open_transactions=pinned, positions=[position(stable_offset=8, fetched=6)])[0]


def test_members_of_a_streams_group_have_tasks_and_no_partition_is_called_unassigned() -> None:
    tasks = [member("ann", assigned=("task 0_1",))]
    is_stuck, line = verdict(members=tasks, positions=[position(member=None)])
    assert (is_stuck, "4 records are left" in line) == (False, True)


PACE = stuck.ReadingPace
MANY = position(lag=40_000, end_offset=40_005)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "4 records are left. Whether it catches up is known after 10 s."),
        (
            {"pace": PACE(3, 1, 20)},
            "It commits 3.0 records/s, and 1.0/s are written. 4 records are left: it keeps up.",
        ),
        (
            {"pace": PACE(50, 1_200, 20), "positions": [MANY]},
            (
                "It commits 50 records/s, and 1\u202f200/s are written: it falls further behind and never catches up. "
                "40\u202f000 records are left."
            ),
        ),
        (
            {"pace": PACE(11, 11, 20), "positions": [MANY]},
            "It commits 11 records/s, and 11/s are written: its lag stays. 40\u202f000 records are left.",
        ),
        ({"positions": [position(lag=0)]}, "It has read everything."),
        ({"positions": []}, "It has committed no position yet."),
        ({"positions": [], "members": []}, "It has no member."),
        ({"positions": [], "is_partial": True}, stuck.HIDDEN),
        (
            {"positions": [position(lag=0)], "is_partial": True},
            "It has read everything of the positions that are shown.",
        ),
        ({"positions": [position(lag=0, fetched=None)], "members": [], "is_partial": True}, "It has no member."),
        ({"positions": [position(lag=0, fetched=None)], "members": []}, "It has no member. It has read everything."),
        (
            {"positions": [position(committed=None, commit_ms=None, lag=None)]},
            SENT,
        ),
        (
            {"positions": [position(committed=None, commit_ms=None, lag=None), position(partition=1, lag=0)]},
            f"{SENT} It has read everything else.",
        ),
        (
            {"positions": [NEVER], "assigned_ms": 1_500},
            f"ann has t-0, and does not fetch it yet: {OF_LOG}.",
        ),
        (
            {"positions": [position(lag=None, lag_s=None, end_offset=None, stable_offset=None, fetched=None)]},
            "Another node leads t-0, and knows how far it is.",
        ),
        (
            {"positions": [NEVER], "reads_elsewhere": True, "now_ms": 90_000},
            f"ann has t-0, and has never committed there: {OF_LOG}.",
        ),
        (
            {"positions": [position(committed=7, fetched=9, fetched_s=60.0, end_offset=99, lag=92)]},
            "92 records are left. Whether it catches up is known after 10 s.",
        ),
    ],
)
def test_a_group_that_gets_on_is_described_by_what_is_known(changes: dict[str, Any], line: str) -> None:
    assert verdict(**changes) == (False, line)


@pytest.mark.parametrize(
    ("pace", "falls"),
    [(PACE(95, 100, 15), False), (PACE(95, 100, 50), True), (PACE(0, 0, 50), False), (PACE(80, 100, 15), True)],
)
def test_a_group_falls_behind_by_more_than_the_steps_of_its_commits(pace: stuck.ReadingPace, falls: bool) -> None:
    assert pace.falls_behind == falls


HOSTS = [member(f"m{number}", OWES_JOIN) for number in range(1, 8)]


@pytest.mark.parametrize(
    ("state", "members", "line"),
    [
        ("Reconciling", [], "It rebalances, and waits a moment for more members."),
        ("Assigning", [member("ann")], "It rebalances, and waits a moment for more members."),
        (
            "PreparingRebalance",
            [member("bob", WAITS), *HOSTS[:2]],
            "It rebalances: nobody gets records until m1 at 10.0.0.1, m2 at 10.0.0.1 rejoin.",
        ),
        (
            "CompletingRebalance",
            [member("ann", OWES_SYNC), member("bob", OWES_SYNC)],
            "It rebalances: nobody gets records until ann at 10.0.0.1, bob at 10.0.0.1 sync.",
        ),
        (
            "CompletingRebalance",
            [member("ann", OWES_SYNC)],
            "It rebalances: nobody gets records until ann at 10.0.0.1 syncs.",
        ),
        (
            "PreparingRebalance",
            HOSTS,
            "It rebalances: nobody gets records until "
            + ", ".join(f"m{number} at 10.0.0.1" for number in range(1, 6))
            + " rejoin.",
        ),
    ],
)
def test_a_rebalance_waits_for_those_that_owe_something(state: str, members: list[MemberRow], line: str) -> None:
    assert verdict(state, members=members) == (True, line)


def test_a_group_without_members_is_stuck_if_unread_records_are_left() -> None:
    unread = position(fetched=None)
    for state in ("Empty", "Dead"):
        assert verdict(state, members=[], positions=[unread, position(partition=1, fetched=None, lag=1_000)]) == (
            True,
            "It has no member: nobody reads the 1\u202f004 records that are left.",
        )
    assert verdict("Empty", members=[], positions=[position(fetched=None, lag=1)]) == (
        True,
        "It has no member: nobody reads the 1 record that is left.",
    )
    assert not verdict("Stable", members=[], positions=[unread])[0]
    assert not verdict("Empty", members=[], positions=[position(fetched=None, lag=0)])[0]
    fetching = verdict(
        "Empty", members=[], positions=[position(fetched=None, member=None), position(partition=1, member=None)]
    )
    assert not fetching[0], "a reader that commits for the group and is no member of it"
    assert "8 records are left" in fetching[1]


@pytest.mark.parametrize(
    ("committed", "start", "is_lost"), [(5, 6, True), (5, 5, False), (0, 1, True), (0, 0, False), (5, None, False)]
)
def test_a_position_before_the_log_is_lost(committed: int, start: int | None, is_lost: bool) -> None:
    is_stuck, line = verdict(positions=[position(committed=committed, fetched=committed, start_offset=start)])
    assert (is_stuck, "are deleted" in line) == (is_lost, is_lost)
    assert not verdict(positions=[position(committed=None, commit_ms=None, start_offset=5)])[0]


def test_an_open_transaction_holds_those_back_that_reached_it() -> None:
    pin = stuck.OpenTransaction(77, None, 6)
    pins = {("t", 0): pin}

    def held(of: dict[tuple[str, int], stuck.OpenTransaction] = pins, **changes: Any) -> bool:
        is_stuck, line = verdict(open_transactions=of, positions=[position(**changes)])
        assert ("An open transaction of producer 77, since offset 6 of t-0, holds" in line) == is_stuck
        return is_stuck

    assert held(stable_offset=6, committed=6, fetched=None)
    assert held(stable_offset=6, committed=None, commit_ms=None, fetched=6)
    assert held(stable_offset=6, committed=5, fetched=7)
    assert not held(stable_offset=6, committed=5, fetched=5)
    assert not held(stable_offset=None, committed=6, fetched=6)
    assert not held(stable_offset=6, committed=6, fetched=6, lag=0), "it has all that there is"
    assert not held(stable_offset=6, committed=6, fetched=6, partition=1), "a transaction elsewhere"
    assert not held({}, stable_offset=6, committed=6, fetched=6)
    assert held(stable_offset=0, committed=0, fetched=None)
    assert not held(stable_offset=0, committed=None, commit_ms=None, fetched=None)


def test_a_record_is_suspected_after_three_lost_members() -> None:
    for lost, is_stuck in ((2, False), (3, True), (4, True)):
        assert verdict(lost_members=lost)[0] is is_stuck
    assert not verdict(lost_members=3, positions=[position(lag=0)])[0]
    uncommitted = position(committed=None, commit_ms=None)
    assert "has committed nothing" in verdict(lost_members=3, positions=[uncommitted])[1]
    assert not verdict(lost_members=3, positions=[uncommitted], is_partial=True)[0]
    assert verdict(lost_members=3, positions=[uncommitted, position(partition=2)])[1].startswith(
        "3 members were lost while its position stayed at 5 of t-2: "
    )


def test_the_words_follow_the_number_of_records() -> None:
    assert verdict(positions=[position(member=None, lag=1)]) == (True, "No member has t-0, and 1 record waits.")
    assert verdict(positions=[position(member=None, lag=2_000)]) == (
        True,
        "No member has t-0, and 2\u202f000 records wait.",
    )
    assert verdict(positions=[position(lag=1)])[1].startswith("1 record is left. ")
    one = position(committed=None, commit_ms=None, lag=None, fetched=None, start_offset=8)
    assert "its log has 1 offset, and auto.offset.reset" in verdict(positions=[one], assigned_ms=1_500)[1]
    nowhere = position(committed=None, commit_ms=None, lag=None, fetched=None, start_offset=None)
    assert "its log ends at 9" in verdict(positions=[nowhere], assigned_ms=1_500)[1]


def test_partitions_that_other_nodes_lead_are_counted() -> None:
    rows = [
        position(partition=number, lag=None, lag_s=None, end_offset=None, stable_offset=None, fetched=None)
        for number in range(3)
    ]
    assert verdict(positions=rows) == (False, "Another node leads t-0 and 2 more, and knows how far it is.")
    assert verdict(positions=rows[:2])[1] == "Another node leads t-0 and 1 more, and knows how far it is."
    known = verdict(positions=[*rows[:1], position(partition=5, lag=0)])
    assert known[1] == "Another node leads t-0, and knows how far it is. It has read everything else."
    led = verdict(positions=[rows[0], position(partition=7, committed=None, commit_ms=None, lag=None, member=None)])
    assert led[1].startswith("A member reads t-7, and has never committed there: it was sent")


def test_a_memberless_group_is_called_finished_only_if_all_positions_are_known() -> None:
    empty = "It has no member."
    assert verdict(members=[], positions=[position(lag=None, fetched=None)]) == (False, empty)
    assert verdict(members=[], positions=[position(lag=0, fetched=None)]) == (False, f"{empty} It has read everything.")
    fetched = verdict(members=[], positions=[position(lag=0), position(partition=1, lag=0, fetched=None)])
    assert fetched == (False, "It has read everything."), "somebody fetches who is no member"


@pytest.mark.parametrize(
    ("changes", "now_ms", "is_stuck"),
    [
        ({"fetched": None}, 31_000, False),
        ({"fetched": None}, 31_001, True),
        ({"fetched": None, "lag": 0}, 60_000, False),
        ({"fetched": None, "member": None, "lag": 0}, 60_000, False),
        ({"committed": 9, "fetched": 9, "fetched_s": 30.0}, 1_500, False),
        ({"committed": 9, "fetched": 9, "fetched_s": 30.1}, 1_500, True),
        ({"committed": 9, "fetched": 9, "fetched_s": None}, 1_500, False),
        ({"committed": 9, "fetched": 9, "fetched_s": 30.1, "end_offset": None}, 1_500, False),
        ({"committed": 5, "fetched": 9, "fetched_s": 30.1}, 1_500, False),
        ({"committed": 5, "fetched": 9, "fetched_s": 30.1}, 31_500, True),
        ({"committed": 5, "fetched": 9, "fetched_s": 0.1}, 31_001, True),
        ({"committed": 5, "fetched": 9, "fetched_s": 0.1}, 31_000, False),
        ({"committed": 9, "fetched": 9, "fetched_s": 0.1}, 90_000, False),
    ],
)
def test_silence_of_more_than_half_a_minute_is_long(changes: dict[str, Any], now_ms: int, is_stuck: bool) -> None:
    assert verdict(positions=[position(**changes)], now_ms=now_ms, assigned_ms=0)[0] is is_stuck


def test_a_member_that_was_just_assigned_its_partition_has_time_to_fetch() -> None:
    old = position(fetched=None)
    assert not verdict(positions=[old], now_ms=60_000, assigned_ms=30_000)[0]
    assert verdict(positions=[old], now_ms=60_001, assigned_ms=30_000)[0]
    watched = {("t", 0): 30.5}
    assert verdict(positions=[position(fetched=None, commit_ms=None)], now_ms=60_001, still_s=watched)[0]
    assert not verdict(positions=[position(fetched=None, commit_ms=None)], now_ms=60_001)[0]
    assert not verdict(positions=[old], now_ms=60_001, reads_elsewhere=True)[0]
    read = position(committed=9, fetched=9, fetched_s=31.0)
    assert verdict(positions=[read], reads_elsewhere=True)[0], "it read here"


def test_reading_without_commits_differs_from_repeating_a_commit() -> None:
    words = "ann reads t-0, and has not committed for 31 s."
    assert verdict(now_ms=32_000) == (True, words)
    assert verdict(now_ms=31_000)[0] is False
    assert verdict(positions=[position(member=None)], members=[member("ann", assigned=("task 0_1",))], now_ms=32_000)[
        1
    ].startswith("A member reads t-0")
    again = verdict(still_s={("t", 0): 31.0})
    assert again == (True, "ann reads t-0, and commits 5 again and again, for 31 s or longer.")
    assert not verdict(still_s={("t", 0): 30.0})[0]
    assert not verdict(positions=[position(fetched=5)], now_ms=32_000)[0], "it has read nothing since"
    unknown = position(commit_ms=None)
    assert verdict(positions=[unknown], now_ms=90_000)[0] is False, "when it committed is not known"


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (
            PACE(12, 10, 20),
            "It commits 12 records/s, and 10/s are written. 105 records are left: it catches up in 52 s.",
        ),
        (
            PACE(9.96, 0, 20),
            "It commits 10.0 records/s, and 0/s are written. 105 records are left: it catches up in 11 s.",
        ),
        (PACE(0.5, 0.5, 20), "It commits 0.5 records/s, and 0.5/s are written: its lag stays. 105 records are left."),
        (PACE(9, 10, 20), "It commits 9.0 records/s, and 10/s are written: its lag stays. 105 records are left."),
        (PACE(9, 11, 20), "It commits 9.0 records/s, and 11/s are written: it keeps up. 105 records are left."),
        (
            PACE(0.25, 0, 20),
            "It commits 0.2 records/s, and 0/s are written. 105 records are left: it catches up in 7 min.",
        ),
    ],
)
def test_the_pace_says_whether_a_group_catches_up(pace: stuck.ReadingPace, words: str) -> None:
    assert verdict(pace=pace, positions=[position(lag=105, end_offset=110)]) == (False, words)


def test_a_longer_watch_shows_a_smaller_difference() -> None:
    assert not PACE(96, 100, 29.9).falls_behind
    assert PACE(96, 100, 30.0).falls_behind
    assert not PACE(97, 100, 30.0).falls_behind
    assert not PACE(90, 100, 29.9).falls_behind


# Share groups


def share(**changes: Any) -> ShareRow:
    usual: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "start_offset": 5,
        "end_offset": 9,
        "unread": 4,
        "locked": 2,
        "most_locked": 2000,
        "holder": "ann at 10.0.0.1",
        "held_offset": 5,
        "held_s": 2.0,
        "lock_left_s": 28.0,
        "retried_offset": None,
        "deliveries": 0,
        "most_deliveries": 5,
    }
    return ShareRow(**{**usual, **changes})


def share_facts(**changes: Any) -> ShareFacts:
    usual: dict[str, Any] = {"members": [member("ann")], "shares": [share()], "without_state": [], "unassigned": []}
    return ShareFacts(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": []}, "nobody reads the 4 records that are left"),
        ({"members": [member("ann", silent_s=20.0)]}, "ann at 10.0.0.1 has sent no heartbeat for 20 s"),
        ({"shares": [share(retried_offset=6, deliveries=4)]}, "Record 6 of t-0 was delivered 4 times of at most 5"),
        ({"shares": [share(locked=2000)]}, "Members have 2\u202f000 records of t-0, as many as"),
        ({"shares": [share(held_s=20.0, lock_left_s=10.0)]}, "ann at 10.0.0.1 has had record 5 of t-0 for 20 s"),
        ({"without_state": ["t-1"]}, "t-1 waits for its delivery state"),
        ({"unassigned": ["t-1"]}, "No member has t-1 yet"),
    ],
)
def test_a_stuck_share_group_says_why(changes: dict[str, Any], words: str) -> None:
    is_stuck, line, _ = verdict_on_shares(share_facts(**changes))
    assert is_stuck
    assert words in line


def test_a_share_group_that_gets_on_is_not_called_stuck() -> None:
    assert verdict_on_shares(share_facts())[:2] == (False, "It reads: 4 records are left, of which members have 2 now.")
    assert verdict_on_shares(share_facts(shares=[share(unread=0, locked=0)]))[:2] == (False, "It has read everything.")
    assert not verdict_on_shares(share_facts(shares=[]))[0]
    assert not verdict_on_shares(share_facts(shares=[share(retried_offset=6, deliveries=2)]))[0]


def streams_facts(**changes: Any) -> StreamsFacts:
    usual: dict[str, Any] = {
        "members": [member("app")],
        "problem": "",
        "shutdown_by": "",
        "is_delayed": False,
        "handovers": [],
        "unowned": [],
        "warm_ups": [],
    }
    return StreamsFacts(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problem": "Internal topics are missing: g-changelog"}, "It has no tasks: Internal topics are missing"),
        ({"shutdown_by": "app at 10.0.0.1"}, "app at 10.0.0.1 asked for the end of the application"),
        ({"members": [member("app", silent_s=40.0)]}, "has sent no heartbeat for 40 s, and keeps its tasks"),
        ({"is_delayed": True}, "waits a moment for more members"),
        ({"handovers": [Handover("task 0_1", "new", "old")]}, "Task 0_1 waits until old has given it up to new."),
        ({"handovers": [Handover("task 0_1", "new", None)] * 2}, "Task 0_1 has no owner until new takes it"),
        ({"unowned": ["task 0_2"]}, "Task 0_2 has no owner"),
    ],
)
def test_a_stuck_streams_group_says_why(changes: dict[str, Any], words: str) -> None:
    found = verdict_on_streams(streams_facts(**changes))
    assert found is not None
    assert found[0]
    assert words in found[1]


def test_a_streams_group_that_warms_up_is_not_stuck_and_all_else_is_as_for_other_groups() -> None:
    warm = verdict_on_streams(streams_facts(warm_ups=[("task 0_1", "new at 10.0.0.1")]))
    assert warm is not None
    assert warm[:2] == (False, "It reads, and new at 10.0.0.1 warms up task 0_1, which moves there afterwards.")
    assert verdict_on_streams(streams_facts()) is None
    assert verdict_on_streams(streams_facts(members=[], problem="x")) is None


@pytest.mark.parametrize(
    ("changes", "offset"),
    [
        ({"positions": [position(start_offset=7)]}, 7),
        ({"lost_members": 3}, 5),
        ({"now_ms": 60_000}, 5),
        (
            {
                "open_transactions": {("t", 0): stuck.OpenTransaction(9, None, 3)},
                "positions": [position(stable_offset=5)],
            },
            3,
        ),
        ({"positions": [position(member=None)]}, None),
        ({}, None),
    ],
)
def test_a_sentence_that_names_an_offset_leads_to_its_record(changes: dict[str, Any], offset: int | None) -> None:
    usual = {"members": [member("ann")], "positions": [position()], "open_transactions": {}, "lost_members": 0}
    found = stuck.verdict_on(stuck.ReadingFacts("Stable", **{**usual, "now_ms": 2_000, **changes}))
    assert found.at == (None if offset is None else RecordPlace("t", 0, offset))


def test_a_group_that_reads_too_slowly_is_not_called_silent_in_one_of_its_partitions() -> None:
    assert verdict(now_ms=60_000)[0]
    is_stuck, line = verdict(now_ms=60_000, pace=PACE(20, 117, 30))
    assert (is_stuck, line.startswith("It commits 20 records/s, and 117/s are written")) == (False, True)
    assert verdict(now_ms=60_000, pace=PACE(0, 117, 30))[0]


def test_a_group_that_falls_behind_says_its_rates_also_where_it_does_not_fetch_yet() -> None:
    waiting = [position(fetched=None)]
    assert "does not fetch it yet" in verdict(positions=waiting)[1]
    assert verdict(positions=waiting, pace=PACE(20, 117, 30))[1].startswith("It commits 20 records/s")


def test_fetches_of_partitions_that_other_nodes_lead_are_not_missed() -> None:
    facts: dict[str, Any] = {"positions": [position(fetched=None)], "now_ms": 60_000}
    assert verdict(**facts)[0]
    assert not verdict(**facts, led_elsewhere={("t", 0)})[0]


@pytest.mark.parametrize(
    ("changes", "is_stuck"),
    [
        ({"held_s": LONG_S}, True),
        ({"held_s": LONG_S - 0.1}, False),
        ({"held_s": None}, False),
        ({"retried_offset": 6, "deliveries": OFTEN}, True),
        ({"retried_offset": 6, "deliveries": OFTEN - 1}, False),
        ({"retried_offset": None, "deliveries": OFTEN}, False),
        ({"retried_offset": 0, "deliveries": OFTEN}, True),
        ({"locked": 5, "most_locked": 5}, True),
        ({"locked": 6, "most_locked": 5}, True),
        ({"locked": 4, "most_locked": 5}, False),
        ({"locked": 0, "most_locked": 0}, False),
        ({"locked": 1, "most_locked": 1}, True),
    ],
)
def test_a_share_partition_is_stuck_from_these_values_on(changes: dict[str, Any], is_stuck: bool) -> None:
    assert verdict_on_shares(share_facts(shares=[share(), share(**changes)]))[0] is is_stuck


def test_the_ends_of_locks_are_named() -> None:
    full = verdict_on_shares(share_facts(shares=[share(locked=2000)]))[1]
    assert full.endswith("the oldest lock is that of ann at 10.0.0.1, for 2 s.")
    full = verdict_on_shares(share_facts(shares=[share(locked=2000, held_s=None)]))[1]
    assert full.endswith("for 0 s.")
    held = verdict_on_shares(share_facts(shares=[share(held_s=20.0, lock_left_s=9.6)]))[1]
    assert held.endswith("without an acknowledgement; its lock ends in 10 s.")
    held = verdict_on_shares(share_facts(shares=[share(held_s=20.0, lock_left_s=None)]))[1]
    assert held.endswith("its lock ends in 0 s.")


def test_heartbeats_of_a_share_group_may_take_fifteen_seconds() -> None:
    for silent_s, is_stuck in ((None, False), (14.9, False), (15.0, True)):
        members = [member("ann"), member("bob", silent_s=silent_s)]
        assert verdict_on_shares(share_facts(members=members))[0] is is_stuck
        found = verdict_on_streams(streams_facts(members=members))
        assert (found is not None) is is_stuck


def test_a_share_group_without_members_is_stuck_over_records_alone() -> None:
    missing: dict[str, Any] = {"members": [], "shares": [share(unread=0, locked=0)]}
    assert verdict_on_shares(share_facts(**missing))[:2] == (False, "It has read everything.")
    assert not verdict_on_shares(share_facts(**missing, without_state=["t-1"]))[0]
    assert not verdict_on_shares(share_facts(**missing, unassigned=["t-1"]))[0]
    two = share_facts(shares=[share(), share(partition=1, unread=1_000, locked=3)])
    assert verdict_on_shares(two)[1] == "It reads: 1\u202f004 records are left, of which members have 5 now."


def test_several_tasks_that_move_are_counted() -> None:
    move = Handover("task 0_1", "new", "old")
    for count, words in ((1, "up to new."), (2, "up to new (2 tasks move)."), (3, "up to new (3 tasks move).")):
        found = verdict_on_streams(streams_facts(handovers=[move] * count))
        assert found is not None
        assert found[1].endswith(words)
    found = verdict_on_streams(streams_facts(handovers=[Handover("task 0_1", "new", None)]))
    assert found is not None
    assert found[:2] == (True, "Task 0_1 has no owner until new takes it with its next heartbeat.")
    found = verdict_on_streams(streams_facts(unowned=["task 0_2"]))
    assert found is not None
    assert found[:2] == (True, "Task 0_2 has no owner: the last assignment gave it to nobody.")


def test_a_reader_is_silent_after_half_a_minute() -> None:
    assert stuck.verdict_on_reader("t-0", 3, None, 30.0) == ""
    assert stuck.verdict_on_reader("t-0", 3, None, 30.1) != ""
    pin = stuck.OpenTransaction(7, None, 3)
    assert "of producer 7, since offset 3," in stuck.verdict_on_reader("t-0", 3, pin, 99.0)


def test_a_reader_without_a_group_says_what_holds_it_back() -> None:
    pin = stuck.OpenTransaction(7, "payments", 3)
    assert "an open transaction of payments, since offset 3," in stuck.verdict_on_reader("t-0", 3, pin, 0.0)
    assert stuck.verdict_on_reader("t-0", 3, None, 45.0).startswith("It has not fetched for 45 s")
    assert stuck.verdict_on_reader("t-0", 3, None, 1.0) == ""
