"""A compacted log moves: with its gaps, with how far it was compacted, and it is compacted on where it went."""

import shutil
from pathlib import Path

from running_node import RunningNode
from test_compaction import FAST, checkpointed, create_compacted, is_compacting, log_of, read, write

from kpywire import error_codes
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from support.raw_client import RawClient
from support.waiting import eventually


def move(client: RawClient, directory: Path) -> None:
    topics = [AlterReplicaLogDirTopic(name="c", partitions=[0])]
    wanted = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(directory), topics=topics)])
    assert client.call(wanted, 2).results[0].partitions[0].error_code == error_codes.NONE


def test_a_compacted_log_moves_and_is_compacted_on_where_it_went(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    settings = {"log.dirs": f"{one},{two}", **FAST}
    node = RunningNode(settings)
    try:
        with RawClient(node.port) as client:
            create_compacted(client)
            write(client, 13)
            here, there = (one, two) if (one / "c-0").exists() else (two, one)
            eventually(lambda: checkpointed(here) == "0\n1\nc 0 12\n")
            move(client, there)
            eventually(lambda: log_of(node).directory.path == str(there))
            assert log_of(node).directory.cleaner_offsets == {("c", 0): 12}
            assert read(client) == [9, 10, 11, 12]
            write(client, 6)
            eventually(lambda: checkpointed(there) == "0\n1\nc 0 18\n" and not is_compacting(node))
            assert read(client)[-1] == 5
            kept = read(client)
            shutil.copytree(tmp_path, tmp_path.with_name("copy"))  # as the death of the machine leaves it
    finally:
        node.stop()
    copies = [tmp_path.with_name("copy") / path.name for path in (one, two)]
    node = RunningNode({**settings, "log.dirs": ",".join(map(str, copies)), "log.cleaner.enable": "false"})
    try:
        with RawClient(node.port) as client:
            assert read(client) == kept
    finally:
        node.stop()
