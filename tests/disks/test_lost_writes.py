"""Writes that the system lost and told somebody else of: no stop is clean and no recovery point moves over them.

The file system is real: it lies in a file on a small one in memory, which is full for a while.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs a loop device")]
PROGRAM = """
import os, subprocess, sys
path, way = sys.argv[1:3]
sys.path[:0] = sys.argv[3:]
from log_making import *
from kpystorage.errors import DiskFailure
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpystorage.recovery import Shutdown
disk = RealDisk(Descriptors(4 if way == "given up" else 512))
directory = open_directory(disk, path)
logs = [directory.create_log("t", number, TOPIC_ID, LogConfig(), NOW_MS) for number in range(20)]
subprocess.run(["sync", "-f", path], check=True)
for turn in range(10):
    for log in logs:
        append_records(log, 10, value_bytes=10_000)
if way == "died":  # as far as the files are concerned
    directory.abandon()
subprocess.run(["sync", "-f", path], check=False)  # reports the loss, so no later sync does
assert subprocess.run(["sync", "-f", path], check=False).returncode == 0
for log in logs:  # and nor does an fsync of the files
    file = os.open(f"{log.path}/{0:020d}.log", os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:
        pass
    os.close(file)
subprocess.run(["mount", "-o", "remount,size=256M", "tmpfs", os.path.dirname(os.path.dirname(path))], check=True)
if way == "died":
    directory = open_directory(RealDisk(Descriptors(512)), path, recover=False)
    assert directory.shutdown is Shutdown.PROCESS_DIED
if way != "stopped":
    for log in list(directory.logs.values()):
        try:
            flush = log.open().begin_flush()
            flush.run()
        except OSError as error:
            directory.fail(error)
            break
        log.finish_flush(flush)
    else:
        print("everything is said to be on disk")
    assert log.recovery_point == 0
try:
    directory.close()
except DiskFailure:
    pass
print("clean" if os.path.exists(path + "/.kafka_cleanshutdown") else "not clean", directory.failure is not None)
"""
SETTING_UP = """
mount -t tmpfs -o size=16M tmpfs {path} && mkdir {path}/data && truncate -s 96M {path}/image &&
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1,nodiscard {path}/image &&
mount -o loop,nodelalloc {path}/image {path}/data &&
echo mounted
"""


@pytest.mark.parametrize("way", ["stopped", "given up", "died"])
def test_records_lost_by_the_system_are_detected_at_recovery(tmp_path: Path, way: str) -> None:
    missing = [name for name in ("unshare", "mkfs.ext4", "sync") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which make a disk that loses writes: not found")
    script = SETTING_UP.format(path=tmp_path) + 'exec "$@"'
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]
    command = [sys.executable, "-c", PROGRAM, f"{tmp_path}/data/logs", way, *sys.path]
    prepare = ["sh", "-ec", f'mkdir {tmp_path}/data/logs; exec "$@"', "sh"]
    done = subprocess.run([*enter, *prepare, *command], capture_output=True, text=True, timeout=120, check=False)
    if not done.stdout.startswith("mounted"):
        pytest.skip(f"no file system can be mounted here: {done.stderr[-200:]}")
    assert done.stdout.splitlines()[1:] == ["not clean True"], done.stderr[-2000:]
