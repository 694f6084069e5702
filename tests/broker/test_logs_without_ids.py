"""The owner of a log that lost the id of its topic with the machine's power."""

from random import Random

import pytest
from hosting_world import World

from kpybroker.hosts.replicas.directories import Directories, IdentifiedDirectory
from kpystorage import names, partition_metadata
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk

PATH = "/data"
FIRST, SECOND, OTHER = (bytes([number]) * 16 for number in (1, 2, 3))


def directories_with_a_log(disk: MemoryDisk) -> Directories:
    """Found by a start: a log of topic ``t`` whose metadata file is empty."""
    reported: list[str] = []
    disk.make_directory(PATH)
    directory = LogDirectory(PATH, disk, Random(1), reported.append, LogConfig())
    directory.open(0)
    directory.create_log("t", 0, FIRST, LogConfig(), 0)
    directory.abandon()
    disk.write(f"{PATH}/t-0/{names.PARTITION_METADATA}", b"", synchronize=True)
    again = LogDirectory(PATH, disk, Random(2), reported.append, LogConfig())
    again.open(0)
    return Directories([IdentifiedDirectory(again, OTHER)], World().scheduler, pytest.fail)


def test_a_log_without_an_id_belongs_to_the_only_topic_of_its_name() -> None:
    disk = MemoryDisk()
    directories = directories_with_a_log(disk)
    directories.deleted_topics = {OTHER: "other"}
    found = directories.find_of_topic("t", 0, SECOND)
    assert found is not None
    path = f"{PATH}/t-0/{names.PARTITION_METADATA}"
    assert partition_metadata.parse(disk.read(path), path) == SECOND


def test_a_log_without_an_id_is_set_aside_if_an_earlier_topic_of_its_name_was_deleted() -> None:
    disk = MemoryDisk()
    directories = directories_with_a_log(disk)
    directories.deleted_topics = {FIRST: "t"}
    assert directories.find_of_topic("t", 0, SECOND) is None
    assert [name for name in disk.list_directory(PATH) if name.endswith(names.STRAY_DIRECTORY)]
