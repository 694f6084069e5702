"""The system's calls with simulated files."""

from types import SimpleNamespace
from typing import Any

from kpystorage.memory_disk import Inode

from .sending import Files


def test_bytes_read_ahead_into_the_null_device_are_counted() -> None:
    """Whatever number the device has in this process: nothing else would be the same in another."""
    files = Files()
    network: Any = SimpleNamespace(descriptors={})
    files.network = network
    inode = Inode(1)
    inode.write(b"records", 0)
    descriptor: Any = SimpleNamespace(_inode=inode)
    number = files.number(descriptor)
    assert [files.sendfile(null, number, 2, 100) for null in (3, 77)] == [5, 5]
    assert files.sendfile(3, number, 7, 100) == 0
