"""Bring the log directories of a node up: find out whose they are, lock them, open and recover them.

A directory that cannot be used is left out with a line in the log and the others serve; without the metadata
directory, or without any directory at all, there is nothing to start. Everything that cannot be started from is
refused in one line that says what to do.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from threading import Lock
from typing import NamedTuple, TypeVar

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.controller.first_start import NodeIdentity, identify
from kpybroker.controller.recovery import StartRefused
from kpybroker.io.machine import name_of_this_machine
from kpybroker.io.scheduler import Scheduler
from kpybroker.replicas.directories import IdentifiedDirectory
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile, DirectoryLocked, DiskFailure
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.session import NO_BROKER_EPOCH

log = logging.getLogger("kpybroker.storage")

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""(directory, logs recovered, logs in all)."""


class StoredNode(NamedTuple):
    """The directories of a node, open, and what they say about it."""

    identity: NodeIdentity
    directories: Sequence[IdentifiedDirectory]
    metadata_directory: LogDirectory
    metadata_log_config: LogConfig
    previous_broker_epoch: int
    """Of the clean stop before this start; -1 for none. A directory that is left out makes any stop unclean."""
    unusable: Sequence[str]
    """The paths of configured directories that are left out."""

    def close(self, broker_epoch: int) -> None:
        """Flush everything and say that the stop was clean. What fails now is recovered at the next start."""
        for each in {self.metadata_directory, *(each.directory for each in self.directories)}:
            try:
                each.close(broker_epoch)
            except DiskFailure as failure:
                log.error("%s", failure)

    def abandon(self) -> None:
        """Let go of the directories as they are, as the death of the process would."""
        for each in {self.metadata_directory, *(each.directory for each in self.directories)}:
            each.abandon()


async def open_storage(
    config: BrokerConfig, disk: Disk, rng: Random, scheduler: Scheduler, progress: Progress | None = None
) -> StoredNode:
    """Open every log directory of the configuration. Logs are recovered in a thread, one after the other.

    Raises StartRefused, or StorageError for a directory that the node cannot do without.
    """
    now_ms = scheduler.now_ms()
    metadata_path, *configured = _absolute([config.metadata_log_dir, *config.log_dirs])
    configured = list(dict.fromkeys(configured))
    paths = [path for path in configured if _usable(disk, path)]
    if metadata_path not in paths and (metadata_path in configured or not _usable(disk, metadata_path)):
        raise StartRefused(f"the metadata directory {metadata_path} cannot be used")
    every = [*paths, *([] if metadata_path in paths else [metadata_path])]
    log_config = _default_log_config(config)
    directories = {path: LogDirectory(path, disk, rng, log.warning, log_config, Lock()) for path in every}
    this_machine = "localhost" if config.standalone else name_of_this_machine()
    identity = identify(config, disk, list(directories), metadata_path, rng, now_ms, this_machine)
    for line in identity.formatted:
        log.info("%s", line)
    metadata_directory = directories[metadata_path]
    working = []
    try:
        for path, directory in directories.items():
            try:
                await _recover(directory, now_ms, scheduler, progress)
            except (DiskFailure, CorruptFile) as failure:
                if path == metadata_path:
                    raise
                log.error("%s", failure)
                continue
            if path in paths:
                working.append(IdentifiedDirectory(directory, identity.directory_ids[path]))
        if not working:
            raise StartRefused("no log directory can be used")
    except (Exception, asyncio.CancelledError):
        for directory in directories.values():
            directory.abandon()
        raise
    return StoredNode(
        identity,
        working,
        metadata_directory,
        LogConfig(
            segment_bytes=config["internal.metadata.log.segment.bytes"] or config["metadata.log.segment.bytes"],
            segment_ms=config["metadata.log.segment.ms"],
        ),
        _clean_epoch([each.directory for each in working]) if len(working) == len(configured) else NO_BROKER_EPOCH,
        [path for path in configured if path not in {each.directory.path for each in working}],
    )


def _clean_epoch(directories: Sequence[LogDirectory]) -> int:
    """Under which broker epoch all of them were closed; -1 unless they agree (``LogManager``, KIP-966)."""
    epochs = {each.previous_broker_epoch for each in directories}
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH


def _absolute(paths: Sequence[str]) -> list[str]:
    return [str(Path(path).absolute()) for path in paths]


def _usable(disk: Disk, path: str) -> bool:
    try:
        _make_directories(disk, path)
        with suppress(FileNotFoundError):
            disk.read(f"{path}/meta.properties")
    except OSError as error:
        log.error("the log directory %s cannot be used: %s", path, error.strerror)
        return False
    return True


def _make_directories(disk: Disk, path: str) -> None:
    status = disk.status(path)
    if status is None:
        parent = path.rpartition("/")[0] or "/"
        _make_directories(disk, parent)
        with suppress(FileExistsError):
            disk.make_directory(path)
            with suppress(PermissionError):  # to read the parent, which writing to it does not take
                disk.synchronize_directory(parent)
    elif not status.is_directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


async def _recover(directory: LogDirectory, now_ms: int, scheduler: Scheduler, progress: Progress | None) -> None:
    try:
        directory.open(now_ms)
    except DirectoryLocked as locked:
        raise StartRefused(f"{locked}; is a broker running with it already?") from None
    next_log = partial(next, directory.recover(), None)
    in_thread = directory.shutdown is Shutdown.UNCLEAN and directory.logs  # else there is nothing to read
    while (step := await _in_thread(scheduler, next_log) if in_thread else next_log()) is not None:
        if progress is not None:
            progress(directory.path, *step)


async def _in_thread(scheduler: Scheduler, work: Callable[[], T]) -> T:
    """While it works, whoever asks how the start gets on is answered, if late: there are no clients yet to hold up."""
    over: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T | None, error: BaseException | None) -> None:
        if over.done():
            return  # nobody waits any more
        if error is not None:
            over.set_exception(error)
        else:
            over.set_result(result)  # type: ignore[arg-type]

    scheduler.submit_blocking(work, done)
    return await over


def _default_log_config(config: BrokerConfig) -> LogConfig:
    return effective({}, config).log()
