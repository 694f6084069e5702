"""The files of a replica of the metadata log."""

from random import Random

from kpybroker.quorum.metadata_log import MetadataLog
from kpybroker.raft.roles import ElectionState
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk

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
