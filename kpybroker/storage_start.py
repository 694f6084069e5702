"""Bring the log directories of a node up: whose they are, format them if they are new, lock, open and recover them.

A directory is formatted by itself only where no quorum is configured and every directory is empty: a voter that
forgot its vote could vote twice. Everything that cannot be started from is refused in one line that says what to do.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.controller.recovery import StartRefused
from kpybroker.metadata.features import SUPPORTED
from kpybroker.raft.voters import Voter
from kpystorage import meta_properties
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.errors import DiskFailure
from kpystorage.log_config import LogConfig
from kpystorage.meta_properties import MetaProperties
from kpywire import uuid
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord

log = logging.getLogger("kpybroker.storage")

Progress = Callable[[str, int, int], None]
"""(directory, logs recovered, logs in all)."""


class StoredNode(NamedTuple):
    """The directories of a node, open, and what they say about it."""

    cluster_id: str
    voter: Voter
    directories: Sequence[LogDirectory]
    directory_ids: dict[str, bytes]
    metadata_directory: LogDirectory
    metadata_log_config: LogConfig
    bootstrap_records: Sequence[Any]
    previous_broker_epoch: int

    def close(self, broker_epoch: int) -> None:
        """Flush everything and say that the stop was clean. A directory that fails now is recovered at the next start."""
        for directory in self.directories:
            try:
                directory.close(broker_epoch)
            except DiskFailure as failure:
                log.error("%s", failure)


def open_storage(config: BrokerConfig, disk: Disk, rng: Random, now_ms: int, progress: Progress | None = None) -> StoredNode:
    """Open every log directory of the configuration. Raises StartRefused, or DiskFailure when none can be used."""
    paths = [str(Path(path).absolute()) for path in config.log_dirs]
    for path in paths:
        Path(path).mkdir(parents=True, exist_ok=True)
    found = {path: meta_properties.read(disk, path) for path in paths}
    if not any(found.values()):
        cluster_id = uuid.to_string(rng.randbytes(16))
        for path in paths:
            found[path] = MetaProperties(cluster_id, config.node_id, rng.randbytes(16))
            meta_properties.write(disk, path, found[path])
    cluster_id = found[paths[0]].cluster_id
    directories = []
    for path in paths:
        directory = LogDirectory(path, disk, rng, log.warning, LogConfig(), threading.Lock())
        directory.open(now_ms)
        for done, total in directory.recover():
            if progress is not None:
                progress(path, done, total)
        directories.append(directory)
    ids = {path: found[path].directory_id for path in paths}
    return StoredNode(
        cluster_id,
        Voter(config.node_id),
        directories,
        ids,
        directories[0],
        LogConfig(segment_bytes=config["metadata.log.segment.bytes"]),
        [FeatureLevelRecord(name="metadata.version", feature_level=30)],
        directories[0].previous_broker_epoch,
    )
