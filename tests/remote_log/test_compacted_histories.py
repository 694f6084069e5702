"""Random histories of a compacted tiered partition have the view of one without a store; planted bugs are found."""

from collections.abc import Callable
from typing import Any

import pytest
from compacted_world import play

from kpybroker.hosts.remote_log import local_view, segment_reads, stored_cleaning
from kpybroker.hosts.replicas import compaction_pass
from kpybroker.machines.remote_log import compacting
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.local_log import UNBOUNDED

SEEDS = 20
PLANTED_SEEDS = 150


@pytest.mark.slow
def test_the_newest_value_of_every_key_is_read_whatever_happens() -> None:
    counted: dict[str, int] = {}
    for seed in range(SEEDS):
        for what, count in play(seed).counted.items():
            counted[what] = counted.get(what, 0) + count
    assert all(
        counted[what] > SEEDS for what in ("copied", "replaced", "deleted", "left the disk", "led", "read slowly")
    )


def _newest_pass(parts: tuple[compacting.StoredPart, ...]) -> compacting.StoredDirt:
    dirt = DIRT_OF(parts)
    return dirt._replace(first_dirty_offset=max((each.compacted_until for each in parts), default=0))


def _old_ones_first(self: compacting.StoreCompaction, *arguments: Any) -> list[compacting.Effect]:
    return [
        compacting.AppendTogether((*each.records[1:], each.records[0]))
        if isinstance(each, compacting.AppendTogether)
        else each
        for each in WRITTEN(self, *arguments)
    ]


def _drops_at_once(*arguments: Any) -> Any:
    return TASK_OF(*arguments)._replace(droppable_until=UNBOUNDED)


def _claims_all(self: stored_cleaning.StoredCleaning, parts: Any, cleaned: Any, _end_offset: int) -> Any:
    return RESULT(self, parts, cleaned, parts[-1].next_offset + 1_000)


DIRT_OF, TASK_OF = compacting.dirt_of, stored_cleaning.task_of
WRITTEN, RESULT = compacting.StoreCompaction.objects_written, stored_cleaning.StoredCleaning._result
EPOCHS_OF = compacting.epochs_of

BUGS: dict[str, tuple[object, str, object]] = {
    "the cleaner of a disk drops tombstones": (compaction_pass, "droppable_until", lambda _config: UNBOUNDED),
    "a pass drops tombstones that it reads for the first time": (stored_cleaning, "task_of", _drops_at_once),
    "all below the end of the last pass counts as clean": (compacting, "dirt_of", _newest_pass),
    "a segment claims keys that the map had no room for": (stored_cleaning.StoredCleaning, "_result", _claims_all),
    "old segments go before the new one can be read": (compacting.StoreCompaction, "objects_written", _old_ones_first),
    "copies do not wait for the cleaner": (local_view, "_clean_until", lambda _log: UNBOUNDED),
    "overlapping copies are read as a whole": (segment_reads, "position_from", lambda *_: 0),
    "a new segment has the epochs of its first part alone": (
        compacting,
        "epochs_of",
        lambda parts: EPOCHS_OF(parts[:1]),
    ),
    "copies that lost their place stay": (RemoteSegments, "superseded", lambda *_: iter(())),
}


FIRST_SEEDS = {
    "a pass drops tombstones that it reads for the first time": 120,
    "all below the end of the last pass counts as clean": 140,
    "overlapping copies are read as a whole": 60,
}
"""The seeds at which the search for a bug begins, where the first ones do not find it."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, replacement = BUGS[bug]
    monkeypatch.setattr(place, name, replacement)
    assert is_found(play, FIRST_SEEDS.get(bug, 0)), bug


def is_found(history: Callable[[int], object], first_seed: int = 0) -> bool:
    """Whether a history breaks an invariant."""
    for seed in range(first_seed, first_seed + PLANTED_SEEDS):
        try:
            history(seed)
        except Exception:
            return True
    return False
