"""All files of a broker at one moment, and how far its clock was ahead: enough to start from there again.

A snapshot of a running broker is what a crash at that moment would have left, and starting from it is a recovery:
everything that was acknowledged is there. It is not a backup format; `save` writes plain Kafka log directories.
"""

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from kpybroker.runtime.io.private_files import DIRECTORY_MODE, MODE
from kpystorage.disk import Disk
from kpystorage.names import LOCK
from kpystorage.session import SESSION

_FACTS = "kpybroker-snapshot.json"
_OF_THE_RUNNING_BROKER = frozenset({LOCK, SESSION})


class Snapshot(NamedTuple):
    """The files of a broker. ``files``: content by path below the log directory; None stands for a directory."""

    files: Mapping[str, bytes | None]
    ahead_ms: float = 0.0

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(len(content) for content in self.files.values() if content is not None)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self.files)} files, {self.size_bytes} bytes>"

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write it as a log directory, which must not exist or be empty. Kafka's own tools can read it."""
        path = os.fspath(directory)
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
        if os.listdir(path):
            raise FileExistsError(f"{path} is not empty")
        for name, content in self.files.items():
            target = os.path.join(path, name)
            if content is None:
                os.makedirs(target, DIRECTORY_MODE)
            else:
                with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as file:
                    file.write(content)
        with open(os.path.join(path, _FACTS), "w", encoding="utf-8") as file:
            json.dump({"aheadMs": self.ahead_ms}, file)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "Snapshot":
        """Read a directory that `save` wrote, or any log directory that is not in use by a broker."""
        from kpystorage.real_disk import RealDisk

        files = dict(read_tree(RealDisk(), os.path.abspath(directory)))
        facts = files.pop(_FACTS, None)
        return cls(files, json.loads(facts)["aheadMs"] if facts is not None else 0.0)


def read_tree(disk: Disk, root: str) -> Mapping[str, bytes | None]:
    """Every file below ``root``, by its path from there. Directories come before their contents."""
    files: dict[str, bytes | None] = {}

    def read(directory: str) -> None:
        for name in sorted(disk.list_directory(f"{root}/{directory}".rstrip("/"))):
            path = f"{directory}/{name}" if directory else name
            status = disk.status(f"{root}/{path}")
            if status is None or path in _OF_THE_RUNNING_BROKER:
                continue
            if status.is_directory:
                files[path] = None
                read(path)
            else:
                files[path] = disk.read(f"{root}/{path}")

    read("")
    return files


def write_tree(disk: Disk, root: str, files: Mapping[str, bytes | None]) -> None:
    """Write the files of a snapshot below ``root``, which exists and is empty."""
    for name, content in files.items():
        if content is None:
            disk.make_directory(f"{root}/{name}")
        else:
            disk.write(f"{root}/{name}", content, synchronize=False)


def clear_tree(disk: Disk, root: str) -> None:
    """Remove everything below ``root``."""
    for name in disk.list_directory(root):
        path = f"{root}/{name}"
        status = disk.status(path)
        if status is not None and status.is_directory:
            clear_tree(disk, path)
            disk.remove_directory(path)
        elif status is not None:
            disk.unlink(path)
