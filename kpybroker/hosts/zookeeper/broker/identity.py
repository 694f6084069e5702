"""The identity of a broker in ZooKeeper mode: its id, and ``meta.properties`` of version 0 in each log directory."""

import os
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from kpystorage import meta_properties
from kpystorage.disk import Disk
from kpystorage.meta_properties import MetaProperties

VERSION: Final = 0


class IdentityRefused(Exception):
    """The log directories are not those of this broker, in one line."""


def stored_id(disk: Disk, directories: Sequence[str], cluster_id: str) -> int | None:
    """The broker id in the log directories; None if they have none. Raises IdentityRefused if they belong to others.

    The messages are Kafka's where it has one.
    """
    ids = {}
    for directory in map(os.path.abspath, directories):
        found = meta_properties.read(disk, directory) if disk.status(directory) else None
        if found is None:
            continue
        path = f"{directory}/meta.properties"
        if found.version != VERSION:
            raise IdentityRefused(
                f"Expected version=0, but found version={found.version} in {path}: it is of a KRaft node"
            )
        if found.cluster_id not in (None, cluster_id):
            raise IdentityRefused(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {found.cluster_id}")
        if found.node_id is not None:
            ids[path] = found.node_id
    if len(set(ids.values())) > 1:
        shown = ", ".join(f"{number} in {path}" for path, number in ids.items())
        raise IdentityRefused(f"the log directories have different broker ids: {shown}")
    return next(iter(ids.values()), None)


async def own_id(
    found: int | None, configured: int, reserved_max_id: int | None, generated: Callable[[int], Awaitable[int]]
) -> int:
    """The id of this broker. ``found`` is the one in its log directories, ``configured`` is ``broker.id``, and
    ``reserved_max_id`` the highest that people choose; None if no id may be ``generated`` above it. Raises
    IdentityRefused.
    """
    if configured >= 0:
        if found not in (None, configured):
            raise IdentityRefused(
                f"Configured broker.id {configured} doesn't match stored broker.id {found} in meta.properties. If you "
                "moved your data, make sure your configured broker.id matches. If you intend to create a new broker, "
                "you should remove all data in your data directories (log.dirs)."
            )
        return configured
    if found is not None:
        return found
    if reserved_max_id is None:
        raise IdentityRefused("broker.id is not set, and broker.id.generation.enable is false; set broker.id")
    return await generated(reserved_max_id)


def write_missing(disk: Disk, directories: Sequence[str], cluster_id: str, broker_id: int) -> list[str]:
    """Write ``meta.properties`` where it is missing or incomplete; the directories where it was, as lines of text."""
    wanted = MetaProperties(cluster_id, broker_id, None, VERSION)
    lines = []
    for directory in directories:
        found = meta_properties.read(disk, directory)
        if found is None or (found.cluster_id, found.node_id) != (cluster_id, broker_id):
            meta_properties.write(disk, directory, wanted)
            lines.append(f"Formatting log directory {directory} for broker {broker_id} of cluster {cluster_id}")
    return lines


def directory_ids(directories: Sequence[str], rng: Random) -> dict[str, bytes]:
    """Ids for the directories, which last for one run: ZooKeeper mode has none."""
    return {directory: rng.randbytes(16) for directory in directories}


def lasting_directory_ids(disk: Disk, directories: Sequence[str], new_id: Callable[[], bytes]) -> dict[str, bytes]:
    """The ids of the directories of a broker that migrates to KRaft. They are written where they are missing."""
    ids = {}
    for directory in directories:
        found = meta_properties.read(disk, directory)
        assert found is not None, "meta.properties was written before"
        if found.directory_id is None:
            found = found._replace(directory_id=new_id())
            meta_properties.write(disk, directory, found)
        assert found.directory_id is not None
        ids[directory] = found.directory_id
    return ids
