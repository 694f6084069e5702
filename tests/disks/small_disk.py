"""A very small file system that commands see which are started with a prefix, and nobody else."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(directory: Path, size_bytes: int) -> Iterator[list[str]]:
    """Mount it on a directory, which is made; the prefix. Skips the test where that cannot be done."""
    directory.mkdir()
    mount = f"mount -t tmpfs -o size={size_bytes} tmpfs {directory} && echo mounted && exec sleep 600"
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
