"""The files of a node are for its user alone: records, passwords in configs, and keys of users are in them in clear."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_node import RunningNode
from test_compaction import FAST, checkpointed, create_compacted, patiently, write

from kpybroker.cli.format import command as format_
from kpystorage.modes import GROUP, PRIVATE, Modes
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from support.raw_client import RawClient


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Whatever the umask allows."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def modes_in(directory: Path) -> dict[bool, set[int]]:
    """The modes of files (False) and directories (True) below a directory."""
    found: dict[bool, set[int]] = {False: set(), True: set()}
    for path in directory.rglob("*"):
        found[path.is_dir()].add(mode(path))
    return found


def used_node(directory: Path, modes: Modes) -> None:
    """A node that has written logs, compacted one, and stopped."""
    node = RunningNode({"log.dirs": str(directory), **FAST}, RealDisk(Descriptors(modes=modes)))
    try:
        with RawClient(node.port) as raw:
            create_compacted(raw)
            write(raw, 13)
            patiently(lambda: "c 0 12" in checkpointed(directory))
    finally:
        node.stop()


def test_files_of_logs_are_their_owners(tmp_path: Path) -> None:
    used_node(tmp_path / "data", PRIVATE)
    assert mode(tmp_path / "data") == 0o700
    assert modes_in(tmp_path / "data") == {False: {0o600}, True: {0o700}}


def test_a_group_may_be_let_in_and_not_to_the_metadata(tmp_path: Path) -> None:
    used_node(tmp_path / "data", GROUP)
    assert mode(tmp_path / "data") == 0o750
    for path in (tmp_path / "data").iterdir():
        is_secret = path.name.startswith(("__cluster_metadata", "bootstrap.checkpoint"))
        assert mode(path) == (0o700 if is_secret else 0o750) if path.is_dir() else (0o600 if is_secret else 0o640), path
    assert modes_in(tmp_path / "data" / "c-0")[False] == {0o640}


def test_a_directory_that_was_open_is_closed_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is of Apache Kafka, of an earlier version, or was made before the first start."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o2775)
    with caplog.at_level(logging.INFO, "kpybroker"):
        RunningNode({"log.dirs": str(data)}).stop()
    assert mode(data) == 0o2700
    assert f"The log directory {data} had the mode 2775 and has 2700 now" in caplog.text
    caplog.clear()
    RunningNode({"log.dirs": str(data)}).stop()
    assert "had the mode" not in caplog.text


def test_a_directory_that_cannot_be_closed_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All users share a directory with the sticky bit, so it stays open; the files in it are closed."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o1777)
    RunningNode({"log.dirs": str(data)}).stop()
    assert mode(data) == 0o1777
    assert modes_in(data) == {False: {0o600}, True: {0o700}}
    assert caplog.text.count("other users of this machine may enter the log directory") == 1


def test_files_written_by_format_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    data, properties = tmp_path / "data", tmp_path / "server.properties"
    properties.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={data}\n")
    user = "SCRAM-SHA-512=[name=alice,password=wonder]"
    format_.main(["-c", str(properties), "--standalone", "--add-scram", user], standalone_mode=False)
    assert mode(data) == 0o700
    assert modes_in(data)[False] == {0o600}
