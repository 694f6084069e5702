"""A log whose files were made before it, under another name."""

import os
from pathlib import Path

import pytest
from log_making import append_records, open_directory

from kpystorage import names
from kpystorage.real_disk import RealDisk

ONE = bytes([1]) * 16
FILES = sorted([names.PARTITION_METADATA, *(names.segment_file(0, each) for each in (".log", ".index", ".timeindex"))])


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_log_of_blank_files_is_like_any_other(tmp_path: Path, preallocate: bool) -> None:
    directory = open_directory(RealDisk(), str(tmp_path))
    config = directory.default_config._replace(preallocate=preallocate, segment_bytes=4_096)
    name = directory.name_blank("t", 1)
    directory.make_blank(name, ONE)
    directory.create_log("t", 0, ONE, config, 5)
    directory.create_log("t", 1, ONE, config, 5, name)
    listed = [sorted((each, os.stat(tmp_path / one / each).st_size) for each in FILES) for one in ("t-0", "t-1")]
    assert listed[0] == listed[1]
    for log in directory.logs.values():
        append_records(log, 3)
        log.flush()
    directory.close()
    again = open_directory(RealDisk(), str(tmp_path))
    assert [again.logs["t", index].open().log_end_offset for index in (0, 1)] == [3, 3]
    again.close()
