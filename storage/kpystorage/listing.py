"""The names in a log directory by their meaning: logs, unfinished copies, directories to be removed, strays."""

from typing import NamedTuple

from kpystorage import names
from kpystorage.disk import Disk

TopicPartition = tuple[str, int]


class Listing(NamedTuple):
    """The names of directories by their kind."""

    logs: list[TopicPartition]
    copies: dict[TopicPartition, str]
    """One copy of each partition. If there are several, the others are leftovers."""
    leftovers: list[str]
    strays: list[str]


def list_logs(disk: Disk, path: str) -> Listing:
    """List the log directory ``path``. May raise OSError."""
    listing = Listing([], {}, [], [])
    for name in sorted(disk.list_directory(path)):
        marked = names.parse_marked_directory(name)
        if marked is not None:
            topic, partition, mark = marked
            if mark == names.STRAY_DIRECTORY:
                listing.strays.append(name)
            elif mark == names.FUTURE_DIRECTORY and (topic, partition) not in listing.copies:
                listing.copies[topic, partition] = name
            else:
                listing.leftovers.append(name)
            continue
        parsed = names.parse_partition_directory(name)
        status = None if parsed is None else disk.status(f"{path}/{name}")
        if parsed is not None and status is not None and status.is_directory:
            listing.logs.append(parsed)
    return listing
