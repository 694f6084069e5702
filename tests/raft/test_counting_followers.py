"""The leader's count of its followers: who has caught up, what a majority has, who is remembered, and who has news."""

import pytest

from kpybroker.machines.raft import leading
from kpybroker.machines.raft.leading import CAUGHT_UP_MS, MOST_REPLICAS, OBSERVER_SESSION_MS, ParkedFetch
from kpybroker.machines.raft.messages import Fetch, ReplicaKey
from kpybroker.machines.raft.roles import ElectionState, Leader
from kpybroker.machines.raft.voters import Voter, Voters, voter_set
from kpywire.uuid import ZERO_UUID

DISK = {number: bytes([number]) * 16 for number in range(1, 10)}
NOW_MS = 10_000_000


def voters(*ids: int) -> Voters:
    return voter_set(Voter(each, DISK[each]) for each in ids)


def key(number: int) -> ReplicaKey:
    return ReplicaKey(number, DISK[number])


def new_leader(epoch_start_offset: int = 10, now_ms: float = 0) -> Leader:
    """Node 1 leads epoch 4."""
    return Leader(ElectionState(4, 1), epoch_start_offset, [1, 2], now_ms)


def fetched(leader: Leader, number: int, offset: int, end: int, now_ms: int, of: Voters | None = None) -> None:
    """Replica ``number`` asks for ``offset`` of a log that ends at ``end``; the wall's clock shows the same time."""
    fetch = Fetch(4, key(number), offset, 4, -1)
    leading.note_fetch(leader, voters(1, 2, 3) if of is None else of, fetch, end, now_ms, now_ms)


@pytest.mark.parametrize(
    ("fetches", "caught_up_at"),
    [
        ([(5, 10, 100)], -1),
        ([(10, 10, 100)], 100),
        ([(11, 10, 100)], 100),
        ([(5, 10, 100), (9, 12, 200)], -1),
        ([(5, 10, 100), (10, 12, 200)], 100),
        ([(5, 10, 100), (11, 12, 200)], 100),
        ([(5, 10, 100), (12, 12, 200)], 200),
        ([(10, 10, 100), (10, 12, 200), (11, 14, 300)], 100),
        ([(0, 0, 100), (0, 5, 200)], 100),
        ([(0, 1, 100), (1, 5, 200)], 100),
    ],
)
def test_a_replica_has_caught_up_with_the_log_as_it_is_or_as_it_was_when_it_last_asked(
    fetches: list[tuple[int, int, int]], caught_up_at: int
) -> None:
    leader = new_leader()
    for offset, end, now_ms in fetches:
        fetched(leader, 2, offset, end, now_ms)
    progress = leader.replicas[key(2)]
    assert progress.caught_up_wall_ms == caught_up_at
    offset, end, now_ms = fetches[-1]
    assert (progress.end_offset, progress.leaders_next_offset) == (offset, end)
    assert (progress.fetched_ms, progress.fetched_wall_ms) == (now_ms, now_ms)


def test_a_first_fetch_of_nothing_is_not_compared_with_an_earlier_one() -> None:
    leader = new_leader()
    fetched(leader, 2, 0, 3, 100)
    assert leader.replicas[key(2)].caught_up_wall_ms == -1


@pytest.mark.parametrize(
    ("offset", "fetched_ms", "is_ready"),
    [
        (10, NOW_MS, True),
        (9, NOW_MS, False),
        (10, NOW_MS - CAUGHT_UP_MS + 1, True),
        (10, NOW_MS - CAUGHT_UP_MS, False),
    ],
)
def test_a_new_voter_must_have_had_everything_and_have_fetched_within_an_hour(
    offset: int, fetched_ms: int, is_ready: bool
) -> None:
    leader = new_leader()
    assert not leading.caught_up(leader, key(5), NOW_MS)
    fetched(leader, 5, offset, 10, fetched_ms)
    assert leading.caught_up(leader, key(5), NOW_MS) is is_ready
    assert not leading.caught_up(leader, ReplicaKey(5, DISK[6]), NOW_MS), "another disk has fetched nothing"


def test_the_time_0_of_a_wall_clock_that_was_never_set_counts_as_never() -> None:
    leader = new_leader()
    leading.note_fetch(leader, voters(1), Fetch(4, key(5), 10, 4, -1), 10, NOW_MS, 0)
    assert not leading.caught_up(leader, key(5), NOW_MS)
    leading.note_fetch(leader, voters(1), Fetch(4, key(5), 10, 4, -1), 10, NOW_MS, 1)
    assert leading.caught_up(leader, key(5), NOW_MS)


def test_a_fetched_snapshot_shows_life_and_acknowledges_nothing() -> None:
    leader = new_leader()
    leading.note_life(leader, voters(1, 2), key(2), 500)
    progress = leading.progress_of(leader, Voter(2, DISK[2]))
    assert (progress.fetched_ms, progress.end_offset, progress.caught_up_wall_ms) == (500, -1, -1)


def test_a_client_without_a_node_id_is_no_replica() -> None:
    leader = new_leader()
    leading.note_life(leader, voters(1, 2), ReplicaKey(-1), 500)
    assert not leader.replicas
    leading.note_life(leader, voters(1, 2), ReplicaKey(0), 500)
    assert list(leader.replicas) == [ReplicaKey(0)], "node 0 is a node"


@pytest.mark.parametrize(
    ("ids", "synced", "ends", "wanted"),
    [
        ((1,), 11, {}, 11),
        ((1,), 10, {}, None),
        ((1, 2), 15, {2: 12}, 12),
        ((1, 2), 12, {2: 15}, 12),
        ((1, 2), 15, {}, None),
        ((1, 2, 3), 15, {2: 12}, 12),
        ((1, 2, 3), 15, {2: 12, 3: 13}, 13),
        ((1, 2, 3), 11, {2: 14, 3: 13}, 13),
        ((1, 2, 3, 4), 15, {2: 14, 3: 13}, 13),
        ((1, 2, 3, 4), 15, {2: 14}, None),
        ((2, 3), 15, {2: 14, 3: 13}, 13),
        ((1, 2, 3), 15, {2: 10, 3: 10}, None),
        ((), 15, {}, None),
    ],
)
def test_records_on_a_majority_of_voters_are_committed(
    ids: tuple[int, ...], synced: int, ends: dict[int, int], wanted: int | None
) -> None:
    leader = new_leader(epoch_start_offset=10)
    leader.synced_offset = synced
    for number, offset in ends.items():
        fetched(leader, number, offset, 20, 100, voters(*ids))
    fetched(leader, 9, 20, 20, 100, voters(*ids))
    assert leading.committed(leader, 1, voters(*ids)) == wanted


def test_only_more_than_what_is_committed_is_news() -> None:
    leader = new_leader(epoch_start_offset=10)
    leader.synced_offset, leader.high_watermark = 15, 12
    fetched(leader, 2, 12, 20, 100)
    assert leading.committed(leader, 1, voters(1, 2)) is None
    fetched(leader, 2, 13, 20, 100)
    assert leading.committed(leader, 1, voters(1, 2)) == 13


def test_a_majority_followed_when_the_last_of_them_fetched_and_the_leader_always_follows_itself() -> None:
    leader = new_leader(now_ms=50)
    assert leading.majority_ms(leader, 1, voters(1, 2, 3)) == 50, "it was elected then"
    fetched(leader, 2, 5, 10, 100)
    assert leading.majority_ms(leader, 1, voters(1, 2, 3)) == 100
    assert leading.majority_ms(leader, 1, voters(1, 2, 3, 4)) == 50
    fetched(leader, 3, 5, 10, 300)
    assert leading.majority_ms(leader, 1, voters(1, 2, 3)) == 300
    assert leading.majority_ms(leader, 1, voters(1, 2, 3, 4)) == 100
    assert leading.majority_ms(leader, 1, voters(2, 3)) == 100, "a leader that is removed needs all others of two"
    assert leading.majority_ms(leader, 1, {}) == 50


def test_a_configured_voter_may_have_any_disk_and_its_last_fetch_counts() -> None:
    leader, configured = new_leader(), voter_set([Voter(1), Voter(2)])
    assert leading.progress_of(leader, Voter(2)).end_offset == -1
    leading.note_fetch(leader, configured, Fetch(4, ReplicaKey(2, DISK[2]), 20, 4, -1), 20, 200, 200)
    leading.note_fetch(leader, configured, Fetch(4, ReplicaKey(2, DISK[3]), 12, 4, -1), 20, 300, 300)
    leading.note_fetch(leader, configured, Fetch(4, ReplicaKey(3, DISK[4]), 15, 4, -1), 20, 400, 400)
    assert leading.progress_of(leader, Voter(2)).end_offset == 12
    assert leading.progress_of(leader, Voter(2, DISK[2])).end_offset == 20
    assert leading.progress_of(leader, Voter(2, DISK[5])).end_offset == -1, "a voter with a disk has that one alone"
    leading.note_fetch(leader, configured, Fetch(4, ReplicaKey(2, ZERO_UUID), 9, 4, -1), 20, 100, 100)
    assert leading.progress_of(leader, Voter(2)).end_offset == 9


def test_observers_that_have_been_silent_for_five_minutes_are_forgotten() -> None:
    leader = new_leader()
    for number, now_ms in ((5, NOW_MS - OBSERVER_SESSION_MS - 1), (6, NOW_MS - OBSERVER_SESSION_MS), (7, NOW_MS)):
        leading.note_life(leader, voters(1, 2), key(number), now_ms)
    leading.forget_silent(leader, NOW_MS)
    assert set(leader.replicas) == {key(6), key(7)}


def full_of_strangers(first_ms: int) -> Leader:
    leader = new_leader()
    for number in range(MOST_REPLICAS):
        leading.note_life(leader, voters(1, 2), ReplicaKey(100, number.to_bytes(16, "big")), first_ms + number)
    assert len(leader.replicas) == MOST_REPLICAS
    return leader


def test_observers_above_the_maximum_wait_until_others_are_silent() -> None:
    leader = full_of_strangers(NOW_MS)
    leading.note_life(leader, voters(1, 2), key(5), NOW_MS + OBSERVER_SESSION_MS)
    assert key(5) not in leader.replicas
    leading.note_life(leader, voters(1, 2), key(5), NOW_MS + OBSERVER_SESSION_MS + 1)
    assert key(5) in leader.replicas
    assert len(leader.replicas) == MOST_REPLICAS


def test_a_voter_takes_the_place_of_the_observer_that_has_been_silent_for_longest() -> None:
    leader = full_of_strangers(NOW_MS)
    leading.note_life(leader, voters(1, 2, 3), key(2), NOW_MS)
    leading.note_life(leader, voters(1, 2, 3), key(3), NOW_MS)
    assert {key(2), key(3)} <= set(leader.replicas)
    assert len(leader.replicas) == MOST_REPLICAS
    gone = {ReplicaKey(100, number.to_bytes(16, "big")) for number in range(2)}
    assert not gone & set(leader.replicas)
    leading.note_life(leader, voters(1, 2, 3), ReplicaKey(2, DISK[9]), NOW_MS)
    assert ReplicaKey(2, DISK[9]) not in leader.replicas, "a voter's id with another disk is no voter"
    leading.note_life(leader, voter_set([Voter(4)]), ReplicaKey(4, DISK[9]), NOW_MS)
    assert ReplicaKey(4, DISK[9]) in leader.replicas, "a configured voter may have any"


@pytest.mark.parametrize(
    ("offset", "known", "has_news"),
    [(9, 8, True), (10, 8, False), (11, 8, False), (10, 7, True), (10, 9, False), (10, -1, True), (9, 7, True)],
)
def test_records_or_a_high_watermark_that_is_not_known_are_news(offset: int, known: int, has_news: bool) -> None:
    parked = ParkedFetch("ticket", Fetch(4, key(2), offset, 4, known), 100)
    assert parked.has_news(10, 8) is has_news
