"""The store of a cluster as its files: their names, sizes and times, and which segments are whole."""

import contextlib
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from kpystorage.remote.local_tiered_storage import LocalFile, missing, parse_path
from kpystorage.remote.segment_name import RemoteSegmentName


class StoredFile(NamedTuple):
    """The facts of a file that change when it is written again."""

    size: int
    mtime_ns: int
    inode: int


def stored(store: Path) -> dict[str, StoredFile]:
    """The files of all segments by their paths; parts that a copy has not named yet are left out."""
    found = {}
    for directory, _, names in os.walk(store):  # directories vanish meanwhile
        for name in names:
            file = Path(directory, name)
            path = str(file.relative_to(store))
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                if parse_path(path) is not None:
                    found[path] = StoredFile(status.st_size, status.st_mtime_ns, status.st_ino)
    return found


def of_topic(files: dict[str, StoredFile], topic: str) -> dict[str, StoredFile]:
    """The files of one topic."""
    return {path: file for path, file in files.items() if (name := parse_path(path)) and name.segment.topic == topic}


def segments(store: Path, topic: str) -> dict[RemoteSegmentName, set[LocalFile]]:
    """The segments of a topic of which the store has something, and what it has."""
    found: dict[RemoteSegmentName, set[LocalFile]] = defaultdict(set)
    for path in of_topic(stored(store), topic):
        name = parse_path(path)
        assert name is not None
        found[name.segment].add(name.file)
    return found


def torn(store: Path, topic: str) -> list[RemoteSegmentName]:
    """The segments that are not whole: they are being copied or deleted, or that was cut off."""
    return [segment for segment, files in segments(store, topic).items() if missing(files)]


class DirectoryWatch:
    """The segments that are being written or deleted in a store, by its files."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._seen: dict[str, set[str]] = {}
        self._gone: dict[str, int] = {}

    def torn(self, topic: str) -> set[int]:
        """The partitions of which a segment is there in part."""
        return {each.partition for each in torn(self._store, topic)}

    def deletions(self, topic: str) -> int:
        """How many files of a topic have gone since the first call."""
        found = set(of_topic(stored(self._store), topic))
        self._gone[topic] = self._gone.get(topic, 0) + len(self._seen.get(topic, found) - found)
        self._seen[topic] = found
        return self._gone[topic]


def start_offsets(store: Path, topic: str, partition: int = 0) -> list[int]:
    """The offsets at which the whole segments of a partition start, in their order."""
    found = segments(store, topic).items()
    return sorted(name.start_offset for name, files in found if name.partition == partition and not missing(files))
