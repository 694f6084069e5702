"""The files of a replica of the metadata log."""

from random import Random

import pytest

from kpybroker.hosts.quorum.metadata_log import MetadataLog, read_checkpoint
from kpybroker.machines.raft.roles import ElectionState
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch

PATH = "/data"


def metadata_log(disk: SimDisk) -> MetadataLog:
    directory = LogDirectory(PATH, disk, Random(1), lambda _line: None, LogConfig())
    directory.open(0)
    for _ in directory.recover():
        pass
    return MetadataLog(directory, LogConfig(), 0)


def test_a_vote_outlasts_the_power_though_nothing_was_written_to_the_log() -> None:
    vote = ElectionState(1, voted_id=2, voted_directory_id=bytes(range(16)))
    for seed in range(10):  # what is not synced may be there all the same
        disk = SimDisk(Random(seed))
        disk.make_directory(PATH)
        disk.synchronize_directory("/")
        metadata_log(disk).write_election(vote, kraft_version=1, voters=())
        assert metadata_log(disk.after_power_failure()).read_election() == vote


def test_bytes_behind_a_snapshot_are_refused_with_its_name_and_place() -> None:
    batch = build_batch([Record(timestamp=0, value=b"v")], base_offset=0)
    for behind in (bytes(4096), b"\xff" * 4096):
        with pytest.raises(Malformed, match=f"^one.checkpoint, byte {len(batch)}: a batch has magic"):
            list(read_checkpoint(batch + behind, "one.checkpoint"))


def test_zeros_behind_the_metadata_log_of_a_clean_stop_hide_no_record_that_is_written_later() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    first, second = (build_batch([Record(timestamp=0, value=b"v")], base_offset=offset) for offset in (0, 1))
    log = metadata_log(disk)
    log.append([first], 0)
    log._directory.close()
    file = disk.file(f"{PATH}/__cluster_metadata-0/{0:020d}.log")
    file.pwrite(bytes(4096), file.size())
    again = metadata_log(disk)
    again.append([second], 0)
    assert [batch for _, batch in again.batches(0)] == [first, second]


def test_records_are_read_once_for_many_brokers_and_again_after_a_cut() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    log = metadata_log(disk)
    first, second, other = (
        build_batch([Record(value=value)], base_offset=at) for at, value in ((0, b"a"), (1, b"b"), (1, b"c"))
    )
    log.append([first, second], 1)
    asked = log.read(1, 1 << 20)
    assert asked == second
    assert log.read(1, 1 << 20) is asked, "no second copy in memory"
    log.truncate_to(1, 2)
    log.append([other], 3)
    assert log.read(1, 1 << 20) == other
    assert log.read(0, 1 << 20) == first + other
