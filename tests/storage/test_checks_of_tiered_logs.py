"""The check and the repair of a log whose beginning is in a store: only the store has it, and that is no damage."""

from typing import Any

from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpybroker.cli import mending as repair
from kpystorage import names
from kpystorage.checking.directory import DirectoryCheck, KnownMetadata
from kpystorage.checking.findings import DAMAGE, Finding
from kpystorage.checking.mending import PartitionMending, Setter
from kpystorage.checking.partition import PartitionCheck, PartitionReport
from kpystorage.checkpoint import parse_epochs, parse_offsets, read_offsets
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk

CONFIG = LogConfig(is_tiered=True, file_delete_delay_ms=0)
LOG = f"{PATH}/t-0"
EPOCHS_PATH = f"{LOG}/{names.LEADER_EPOCHS}"
SPOT = ("t", 0)


def filled() -> MemoryDisk:
    """A cleanly stopped directory with a log from 5 on, of which the disk has the part from 20 on."""
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk, config=CONFIG)
    log = directory.create_log(*SPOT, TOPIC_ID, CONFIG, NOW_MS)
    for epoch in range(4):
        if epoch:
            log.roll(NOW_MS)
        append_records(log, 10, leader_epoch=epoch, producer_id=epoch)
    log.flush()
    log.advance_log_start(5)
    assert log.delete_oldest(2, NOW_MS) == 2
    directory.delete_due_files(NOW_MS, at_most=100)
    directory.close()
    return disk


def checked(disk: MemoryDisk) -> tuple[DirectoryCheck, PartitionReport, list[Finding]]:
    directory = DirectoryCheck(disk, PATH, KnownMetadata())
    directory.look()
    report = PartitionCheck(disk, LOG, directory.facts(SPOT)).run()
    directory.compare({SPOT: report})
    found = [each for each in (*directory.findings, *report.findings) if not each.path.endswith("meta.properties")]
    return directory, report, found


def test_a_log_that_begins_in_a_store_has_no_damage() -> None:
    _, report, found = checked(filled())
    assert found == []
    assert (report.log_start, report.first_base, report.log_end) == (5, 20, 40)


def test_a_log_whose_start_is_not_known_from_its_checkpoint_begins_with_its_epochs() -> None:
    disk = filled()
    disk.write(f"{PATH}/{names.LOG_STARTS}", b"nonsense", synchronize=True)
    directory, report, found = checked(disk)
    assert [each.path for each in found if each.level == DAMAGE] == [f"{PATH}/{names.LOG_STARTS}"]
    assert report.log_start == 5
    anything: Any = disk
    reports = {SPOT: report}
    repair._checkpoint(anything, Setter(disk, "stamp"), directory, names.LOG_STARTS, reports, set())
    assert [each for each in checked(disk)[2] if each.level == DAMAGE] == []
    assert checked(disk)[1].log_start == 5
    assert open_directory(disk, config=CONFIG).logs[SPOT].open().log_start_offset == 5


def test_the_start_in_a_checkpoint_that_is_rewritten_is_kept() -> None:
    disk = filled()
    directory, report, _ = checked(disk)
    anything: Any = disk
    repair._checkpoint(anything, Setter(disk, "stamp"), directory, names.LOG_STARTS, {SPOT: report}, set())
    assert read_offsets(disk, f"{PATH}/{names.LOG_STARTS}") == {SPOT: 5}
    assert parse_offsets(disk.read(f"{PATH}/{names.LOG_STARTS}"), "") == {SPOT: 5}


def mended(disk: MemoryDisk) -> list[str]:
    directory = checked(disk)[0]
    mending = PartitionMending(disk, LOG, directory.facts(SPOT), Setter(disk, "stamp"))
    mending.run()
    return mending.lines


def test_epochs_that_only_a_store_has_records_of_outlive_a_repair() -> None:
    disk = filled()
    disk.write(EPOCHS_PATH, b"0\n3\n0 5\n1 10\n7 20\n", synchronize=True)
    assert any("rewritten from the batches" in each for each in mended(disk))
    assert parse_epochs(disk.read(EPOCHS_PATH), "") == [(0, 5), (1, 10), (2, 20), (3, 30)]
    assert all(each.level != DAMAGE for each in checked(disk)[2])


def test_epochs_that_nothing_on_the_disk_tells_are_left_as_they_are() -> None:
    disk = filled()
    disk.write(EPOCHS_PATH, b"nonsense", synchronize=True)
    lines = mended(disk)
    assert any("left as it is; a store has the records from offset 5 up to 20" in each for each in lines)
    assert disk.read(EPOCHS_PATH) == b"nonsense"
