"""Opens the log directories of a node: find out which node they belong to, lock them, open and recover them.

A directory that cannot be used is logged and left out, and the others serve. Without the metadata directory, or without
any directory at all, the start is refused. Each refusal is one line that says what to do. A disk that is nearly full is
a warning.
"""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeVar

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import GROUP_READABLE
from kpybroker.config.topic import effective
from kpybroker.hosts.quorum.first_start import NodeIdentity, identify
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.replicas.directories import IdentifiedDirectory
from kpybroker.runtime.io.machine import name_of_this_machine
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.disk_errors import in_words
from kpystorage.errors import CorruptFile, DirectoryLocked, DiskFailure
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.recovery import Shutdown
from kpystorage.session import NO_BROKER_EPOCH

log = logging.getLogger("kpybroker.storage")

HARDLY_FREE_SHARE: Final = 0.03
MUCH_FREE_BYTES: Final = 10 << 30
"""Free space is enough at this size, even if it is a small share of a large disk."""
HARDLY_FREE_BYTES: Final = 64 << 20
"""Free space is short below this size, on any disk: a few more records, and the disk is full."""

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""(directory, logs recovered, logs in all)."""
Identify = Callable[[BrokerConfig, Disk, Sequence[str], str, Random, int, str], NodeIdentity]
"""(config, disk, directories, metadata directory, rng, now_ms, this machine) -> the identity that they have."""


class StoredNode(NamedTuple):
    """The open directories of a node, and the data read from them."""

    identity: NodeIdentity
    directories: Sequence[IdentifiedDirectory]
    metadata_directory: LogDirectory
    metadata_log_config: LogConfig
    previous_broker_epoch: int
    """The broker epoch of the clean stop before this start; -1 if there was none. A directory that is left out makes
    any stop unclean."""
    unusable: Sequence[str]
    """The paths of configured directories that are left out."""

    def close(self, broker_epoch: int) -> None:
        """Flush everything and record that the stop was clean. Failures are recovered from at the next start."""
        for each in {self.metadata_directory, *(each.directory for each in self.directories)}:
            try:
                each.close(broker_epoch)
            except DiskFailure as failure:
                log.error("%s", failure)

    def abandon(self) -> None:
        """Close the directories as they are, as the death of the process would."""
        for each in {self.metadata_directory, *(each.directory for each in self.directories)}:
            each.abandon()


async def open_storage(
    config: BrokerConfig,
    disk: Disk,
    rng: Random,
    scheduler: Scheduler,
    progress: Progress | None = None,
    identify: Identify = identify,
) -> StoredNode:
    """Open every log directory of the configuration. Logs are recovered in a thread, one after the other. ``identify``
    finds out to which node they belong.

    Raises StartRefused, or StorageError for a directory that the node cannot do without.
    """
    now_ms = scheduler.now_ms()
    metadata_path, *configured = _absolute([config.metadata_log_dir, *config.log_dirs])
    configured = list(dict.fromkeys(configured))
    unusable = {path: why for path in dict.fromkeys([*configured, metadata_path]) if (why := _why_unusable(disk, path))}
    if metadata_path in unusable:
        raise StartRefused(unusable[metadata_path])
    for why in unusable.values():
        log.error("%s", why)
    paths = [path for path in configured if path not in unusable]
    every = list(dict.fromkeys([*paths, metadata_path]))
    for path in every:
        _warn_of_little_room(disk, path)
    log_config = _default_log_config(config)
    directories = {path: LogDirectory(path, disk, rng, log.warning, log_config) for path in every}
    this_machine = "localhost" if config.standalone else name_of_this_machine()
    try:
        identity = identify(config, disk, list(directories), metadata_path, rng, now_ms, this_machine)
    except OSError as error:
        place = next((path for path in every if f"{error.filename}/".startswith(f"{path}/")), " or ".join(every))
        raise StartRefused(cannot_be_used(place, error)) from None
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
    """The broker epoch with which all of them were closed; -1 unless they agree (``LogManager``, KIP-966)."""
    epochs = {each.previous_broker_epoch for each in directories}
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH


def _absolute(paths: Sequence[str]) -> list[str]:
    return [str(Path(path).absolute()) for path in paths]


def _why_unusable(disk: Disk, path: str) -> str | None:
    try:
        _make_directories(disk, path)
        with suppress(FileNotFoundError):
            disk.read(f"{path}/meta.properties")
    except OSError as error:
        return cannot_be_used(path, error)
    return None


def cannot_be_used(path: str, error: OSError) -> str:
    """The error for a directory that cannot be used, as one line for the user."""
    return f"the log directory {path} cannot be used: {in_words(error)}"


def _warn_of_little_room(disk: Disk, path: str) -> None:
    free, total = disk.free_bytes(path), disk.total_bytes(path)
    if total and free < max(HARDLY_FREE_BYTES, min(MUCH_FREE_BYTES, total * HARDLY_FREE_SHARE)):
        log.warning(
            "the disk of the log directory %s has little room: %.1f of %.1f MiB are free. Make more, or lower "
            "retention.bytes of large topics: a directory whose disk is full goes offline",
            path,
            free / 2**20,
            total / 2**20,
        )


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


def _protect(directory: LogDirectory) -> None:
    """Close a directory to other users, which may be one of Apache Kafka or of an earlier version."""
    disk, path = directory.disk, directory.path
    if not isinstance(disk, RealDisk):
        return
    before, after = disk.descriptors.modes.protect(path)
    if after != before:
        line = "The log directory %s had the mode %04o and has %04o now (%s lets its group in)"
        log.info(line, path, before, after, GROUP_READABLE)
    elif after & stat.S_IXOTH:
        log.warning(
            "other users of this machine may enter the log directory %s, and read files that were there before this "
            "version; chmod -R go-rwx it",
            path,
        )


async def _recover(directory: LogDirectory, now_ms: int, scheduler: Scheduler, progress: Progress | None) -> None:
    try:
        directory.open(now_ms)
    except DirectoryLocked as locked:
        raise StartRefused(f"{locked}; is a broker running with it already?") from None
    _protect(directory)
    next_log = partial(next, directory.recover(), None)
    in_thread = directory.shutdown is Shutdown.UNCLEAN and directory.logs  # else there is nothing to read
    while (step := await _in_thread(scheduler, next_log) if in_thread else next_log()) is not None:
        if progress is not None:
            progress(directory.path, *step)


async def _in_thread(scheduler: Scheduler, work: Callable[[], T]) -> T:
    """Do work in a thread. Meanwhile requests for the progress of the start are answered, if late; there are no clients
    yet to delay."""
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
    is_tiered: bool = config["remote.log.storage.system.enable"]  # of any log, until its topic is known
    return effective({}, config).log()._replace(is_tiered=is_tiered)
