"""``kpybroker check`` of a partition whose broker was killed in the middle of deleting or compacting."""

import pytest
from log_making import append_records
from test_lost_caches import filled

from kpystorage import names
from kpystorage.checking.findings import DAMAGE
from kpystorage.checking.partition import PartitionCheck, PartitionFacts
from kpystorage.sim_disk import SimDisk


def halfway(suffixes: tuple[str, ...]) -> tuple[SimDisk, str]:
    """A log of several segments, of which the second has lost some of its files, and the log's path."""
    disk, directory = filled()
    log = directory.logs["t", 0]
    base = log.base_offsets[1]
    directory.close()
    for suffix in suffixes:
        disk.unlink(f"{log.path}/{names.segment_file(base, suffix)}")
    return disk, log.path


def damage(disk: SimDisk, path: str, around: PartitionFacts) -> list[str]:
    return [each.text for each in PartitionCheck(disk, path, around).run().findings if each.level == DAMAGE]


@pytest.mark.parametrize("clean", [True, False])
def test_an_index_without_its_segment_is_damage_only_after_a_clean_stop(clean: bool) -> None:
    disk, path = halfway((names.LOG,))
    reported = damage(disk, path, PartitionFacts(clean, is_compacted=True, cleaned_to=1 << 40))
    assert reported == (["an index without its segment"] * 2 if clean else [])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("is_compacted", [True, False])
def test_a_gap_beyond_the_checkpoint_is_no_damage_where_a_cleaner_was_killed(clean: bool, is_compacted: bool) -> None:
    disk, path = halfway((names.LOG, names.OFFSET_INDEX, names.TIME_INDEX))
    reported = damage(disk, path, PartitionFacts(clean, is_compacted=is_compacted))
    assert bool(reported) == (clean or not is_compacted), reported


@pytest.mark.parametrize("clean", [True, False])
def test_an_active_segment_that_was_cut_to_nothing_is_reported(clean: bool) -> None:
    disk, directory = filled()
    log = directory.logs["t", 0]
    append_records(log, 1)
    for _ in range(20):
        append_records(log, 1)
    base = log.active.base_offset
    log.active.flush_indexes()
    directory.close()
    disk.file(f"{log.path}/{names.segment_file(base, names.LOG)}").truncate(0)
    found = PartitionCheck(disk, log.path, PartitionFacts(clean)).run().findings
    reported = [each.text for each in found if each.path.endswith(names.segment_file(base, names.LOG))]
    if clean:
        assert [each for each in found if each.level == DAMAGE]
    else:
        (text,) = reported
        assert text.startswith(f"ends at offset {base}, and its index knows of offset ")
