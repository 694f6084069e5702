"""Random histories of a tiered partition keep every committed record, and planted bugs are found by them."""

from collections.abc import Callable
from typing import Any

import pytest
from tiered_world import TieredWorld, play

from kpybroker.machines.remote_log import copying, deleting, empty_leader, expiry, follower, lineage, sweep
from kpybroker.machines.remote_log.cache import EpochSegments, RemoteSegments
from kpybroker.machines.remote_log.segments import FINISHED, STARTED, RemoteLogSegmentUpdate

SEEDS = 60
PLANTED_SEEDS = 400


def test_no_committed_record_is_ever_lost() -> None:
    counted: dict[str, int] = {}
    for seed in range(SEEDS):
        for what, count in play(seed).counted.items():
            counted[what] = counted.get(what, 0) + count
    assert all(counted[what] > SEEDS // 4 for what in ("copied", "deleted", "built", "left the disk", "unclean"))
    assert counted["behind the store"] > 0


def _replaces_as_kafka(self: EpochSegments, start: int, end: int, segment_id: bytes) -> None:
    while self._starts and self._starts[-1] >= start and self.highest_offset <= end:
        self._starts.pop()
        self._ends.pop()
        self.unreferenced.add(self._ids.pop())
    at = sum(each < start for each in self._starts)
    if at < len(self._starts) and self._starts[at] == start:
        self.unreferenced.add(self._ids[at])
        self._ids[at], self._ends[at] = segment_id, end
    else:
        self._starts.insert(at, start)
        self._ends.insert(at, end)
        self._ids.insert(at, segment_id)
    self.unreferenced.discard(segment_id)
    self.highest_offset = max(self.highest_offset, end)


def _begins_at_once(
    self: deleting.Deletions, found: expiry.RemoteExpiry, _start: int, now_ms: int, wall_ms: int
) -> list[Any]:
    return BEGIN(self, found._replace(log_start=None), 0, now_ms, wall_ms)


def _announces_nothing(self: deleting.Deletions, now_ms: int, wall_ms: int) -> list[Any]:
    return [
        deleting.DeleteObjects(self._of[each.record.id.segment_id].segment)
        if isinstance(each, copying.AppendRecord) and isinstance(each.record, RemoteLogSegmentUpdate)
        else each
        for each in DUE(self, now_ms, wall_ms)
    ]


def _reads_copies_that_began(self: RemoteSegments, record: Any) -> Any:
    verdict = APPLY(self, record)
    if record.state is STARTED:
        APPLY(self, record.update(FINISHED, 0, 0))
    return verdict


BEGIN, DUE = deleting.Deletions.begin, deleting.Deletions.due
APPLY = RemoteSegments.apply

BUGS: dict[str, tuple[object, str, object]] = {
    "the disk loses what is only committed": (
        expiry,
        "_safe_until",
        lambda log, _segments, **_: log.high_watermark,
    ),
    "the disk believes the highest copied offset": (
        expiry,
        "copied_until",
        lambda segments, epochs, _offset: lineage.highest_copied(segments, 1 << 40, epochs).offset + 1,
    ),
    "a copy within another one takes its place": (EpochSegments, "finish", _replaces_as_kafka),
    "expired segments go before the log start": (deleting.Deletions, "begin", _begins_at_once),
    "objects go before the record": (deleting.Deletions, "due", _announces_nothing),
    "copies that began are read": (RemoteSegments, "apply", _reads_copies_that_began),
    "a former leader writes": (TieredWorld, "is_fenced", lambda *_: False),
    "open copies are never overdue": (expiry.UnfinishedCopies, "overdue", lambda *_: frozenset()),
    "objects are swept at once": (
        sweep.ObjectSweep,
        "judge",
        lambda _self, listing, *_: [(each, sweep.Belonging.ORPHAN) for each in listing],
    ),
    "objects are never swept": (sweep.ObjectSweep, "judge", lambda *_: []),
    "an empty leader begins at its end": (empty_leader.EmptyLeader, "found", lambda *_: empty_leader.StayEmpty()),
    "the follower takes a lost lineage": (
        follower.AuxiliaryState,
        "_agrees",
        lambda self, *_: follower.FetchIndexes(self._copies[0]),
    ),
}


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, replacement = BUGS[bug]
    monkeypatch.setattr(place, name, replacement)
    assert is_found(play), bug


def is_found(history: Callable[[int], object]) -> bool:
    """Whether a history breaks an invariant."""
    for seed in range(PLANTED_SEEDS):
        try:
            history(seed)
        except (AssertionError, KeyError, IndexError):
            return True
    return False
