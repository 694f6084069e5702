"""Small file systems that commands see which are started with a prefix, and nobody else."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SHUT_DOWN = """
import fcntl, os, sys
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
"""


@contextmanager
def mounted(directory: Path, size_bytes: int) -> Iterator[list[str]]:
    """Mount one in memory on a directory, which is made; the prefix. Skips the test where that cannot be done."""
    directory.mkdir()
    with _seeing(f"mount -t tmpfs -o size={size_bytes} tmpfs {directory}") as prefix:
        yield prefix


@contextmanager
def mounted_ext4(directory: Path, size_bytes: int) -> Iterator[list[str]]:
    """The same of an ext4, which `go_down` takes away and `come_back` mounts again."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("needs mkfs.ext4, which makes a file system that can go down: not found")
    directory.mkdir()
    image = _image(directory)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, timeout=60)
    with _seeing(f"mount -t ext4 -o loop {image} {directory}") as prefix:
        yield prefix


def go_down(directory: Path, prefix: list[str]) -> None:
    """Lose what was not synced, as with the power; the machine runs on. Skips where the kernel does not do that."""
    tried = subprocess.run(
        [*prefix, sys.executable, "-c", SHUT_DOWN, directory], capture_output=True, text=True, timeout=60
    )
    if tried.returncode != 0:
        pytest.skip(f"a file system cannot be shut down here: {tried.stderr.strip().splitlines()[-1:]}")


def come_back(directory: Path, prefix: list[str]) -> None:
    """Mount it again."""
    again = f"umount {directory} && mount -t ext4 -o loop {_image(directory)} {directory}"
    subprocess.run([*prefix, "sh", "-c", again], check=True, timeout=60)


def _image(directory: Path) -> Path:
    return directory.with_name(directory.name + ".ext4")


@contextmanager
def _seeing(mounting: str) -> Iterator[list[str]]:
    mount = f"{mounting} && echo mounted && exec sleep 600"
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("needs unshare and nsenter, which make a small disk: not found")
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert holder.stdout is not None
        line = holder.stdout.readline().strip()
        if line != "mounted":
            pytest.skip(f"no file system can be mounted here: {line}")
        yield ["nsenter", "--target", str(holder.pid), "--mount"]
    finally:
        holder.kill()
        holder.wait()
