"""The log directories of this node: which of them work, where a log is or should be made, which logs are being deleted.

A directory that fails goes offline alone; a node without any working directory cannot continue.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.errors import CorruptLog, DiskFailure, TooManyOpenFiles
from kpystorage.log import Log
from kpywire import error_codes

log = logging.getLogger("kpybroker.replicas")

EVERY_DIRECTORY = "*"
REMOVED_AT_ONCE = 16
"""How many directories are removed at a time. Before the next ones it is checked whether the node stops."""
REMOVAL_PAUSE_MS = 1
"""The pause between removals, for other work that needs a thread."""
USE_WAIT_MS = 2
SAY_AGAIN_MS = 10_000.0
MOST_PREFERRED = 10_000
"""The most partitions that are not on this node yet but have a chosen directory."""


class IdentifiedDirectory(NamedTuple):
    """A log directory with its ``directory.id``."""

    directory: LogDirectory
    id: bytes


class Directories:
    """Working and failed log directories. ``halt`` ends a node that has none left."""

    def __init__(
        self,
        directories: Sequence[IdentifiedDirectory],
        scheduler: Scheduler,
        halt: Callable[[str], None],
        unusable: Sequence[str] = (),
    ) -> None:
        """``unusable`` are the paths of configured directories that could not be opened at the start."""
        self._unusable = list(unusable)
        self.working: list[LogDirectory] = [each.directory for each in directories]
        self.failed: list[LogDirectory] = []
        self.ids = {each.directory: each.id for each in directories}
        self.scheduler = scheduler
        self._halt = halt
        self._cordoned: frozenset[str] = frozenset()
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self.deleted_topics: dict[bytes, str] = {}
        """Ids and names of topics that were deleted before this start, as far back as the metadata log goes."""
        self._doomed: set[Log] = set()
        """Logs of deleted topics that are still being flushed."""
        self._going: deque[tuple[LogDirectory, str]] = deque()
        """Marked directories that are to be removed now."""
        self._is_removing = self._is_stopped = False
        self._reported: set[str] = set()
        """Errors of damaged logs that were already logged, so that each is logged once."""
        self._logged_ms = -SAY_AGAIN_MS
        """The time when missing file descriptors were last logged."""
        self._failure_listeners: list[Callable[[LogDirectory], None]] = []
        self._gatherings = list(
            {id(each.directory.disk): each.directory.disk.gathering for each in directories}.values()
        )
        for directory in self.working:
            directory.on_failure = self._failed

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self.working)

    # Writing (what `kpybroker.runtime.fairness.turn` asks for)

    def gather(self) -> None:
        """Gather appends until `settle`."""
        for gathering in self._gatherings:
            gathering.is_on = True

    def stop_gathering(self) -> None:
        """Write appends at once. Those already gathered still wait for `settle`."""
        for gathering in self._gatherings:
            gathering.is_on = False

    def settle(self) -> bool:
        """Write the gathered appends; whether all of them were written. A directory where a write fails is offline
        then."""
        is_written = True
        for gathering in self._gatherings:
            if gathering.files or gathering.failures:
                for path, error in gathering.settle():
                    is_written = False
                    self._lost(path, error)
        return is_written

    def _lost(self, path: str, error: OSError) -> None:
        """Take the directory of a file offline, since its gathered appends could not be written."""
        for directory in list(self.working):
            if path.startswith(f"{directory.path}/"):
                directory.fail(error)

    # Finding

    def find(self, topic: str, index: int) -> Log | None:
        """The log of a partition by its name, whichever topic of that name it belongs to."""
        for directory in self.working:
            found = directory.logs.get((topic, index))
            if found is not None:
                return found
        return None

    def find_of_topic(self, topic: str, index: int, topic_id: bytes) -> Log | None:
        """The log of a partition; a log of an earlier topic of the same name is set aside."""
        found = self.find(topic, index)
        if found is None:
            return None
        if found in self._doomed:
            raise KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER, f"an earlier {found.name} is being deleted")
        if found.topic_id is None:
            found.topic_id = found.directory.read_topic_id(found)
        if found.topic_id not in (None, topic_id):
            self._let_go(found)
            return None
        if found.topic_id is None:
            if topic in self.deleted_topics.values():
                # Nothing of it was flushed, or its id would have been: no more is lost than a power failure may take.
                self.set_aside(found, f"The log {found.name} may belong to a deleted topic of its name")
                return None
            found.directory.write_topic_id(found, topic_id)  # the machine died before it was on disk
            found.topic_id = topic_id
        return found

    def for_new_log(self, topic: str, index: int, assigned: bytes) -> LogDirectory:
        """The directory for a new log: the one that was requested, else the one in the metadata, else the one with the
        fewest logs (``LogManager.getOrCreateLog``)."""
        if not self.working:
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR)
        preferred = self._preferred.pop((topic, index), None)
        if preferred in self.working:
            return preferred
        for directory in self.working:
            if self.ids[directory] == assigned:
                return directory
        if self.failed_paths and assigned not in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            # The log is in a directory that failed: an empty one in its place would look like lost records.
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR)
        open_to_new = [each for each in self.working if not self.is_cordoned(each)] or self.working
        return min(open_to_new, key=lambda directory: len(directory.logs) + directory.in_the_making)

    def named(self, path: str) -> LogDirectory:
        """The directory with this absolute path, in which a request wants a log to be. KafkaError if it cannot be
        used."""
        for directory in self.working:
            if directory.path == path:
                if self.is_cordoned(directory):
                    raise KafkaError(error_codes.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
                return directory
        if path in self.failed_paths:
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        raise KafkaError(error_codes.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")

    def prefer(self, partition: tuple[str, int], directory: LogDirectory) -> None:
        """Use this directory if the partition's log is made later."""
        self._preferred[partition] = directory
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def cordon(self, paths: Collection[str]) -> None:
        """Make new logs in other directories than these, named by absolute paths (KIP-1066); ``*`` stands for all."""
        self._cordoned = frozenset(paths)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether a directory takes no new logs."""
        return directory.path in self._cordoned or EVERY_DIRECTORY in self._cordoned

    @property
    def failed_paths(self) -> list[str]:
        """The paths of directories that failed, now or at the start."""
        return [*self._unusable, *(directory.path for directory in self.failed)]

    def offline_ids(self) -> list[bytes]:
        """The ids of failed directories, for heartbeats."""
        return [self.ids[directory] for directory in self.failed]

    def is_any_online(self) -> bool:
        """Whether a directory has not failed."""
        return bool(self.working)

    def cordoned_ids(self) -> list[bytes]:
        """The ids of cordoned directories, for heartbeats."""
        return [directory_id for directory, directory_id in self.ids.items() if self.is_cordoned(directory)]

    def keep_one_of_each(
        self, assigned: Callable[[str, int], bytes | None], topic_id: Callable[[str], bytes | None]
    ) -> None:
        """Keep one log of each partition that has logs in several directories, and set the others aside.

        Logs of an earlier topic of the same name do not count at all.

        There are several logs if the machine died in the last step of a move and one of its two renames was lost, or if
        a directory is back that had been given up. The log that was led last is kept; if there are two of them, the
        longer one. The metadata decide only between equals.
        """
        places: dict[tuple[str, int], list[Log]] = {}
        for directory in self.working:
            for key, found in directory.logs.items():
                if key[0] != METADATA_TOPIC:
                    places.setdefault(key, []).append(found)
        for key, several in places.items():
            if len(several) > 1:
                of_topic = [found for found in several if self._may_be_of(found, topic_id(key[0]))]
                if len(of_topic) > 1:
                    self._keep_best(of_topic, assigned(*key))

    def _may_be_of(self, found: Log, topic_id: bytes | None) -> bool:
        """Whether a log belongs to the topic with this id or to an unknown topic. Otherwise it is let go."""
        try:
            found.topic_id = found.directory.read_topic_id(found)
        except DiskFailure as failure:
            self.check(failure)
        if found.topic_id in (None, topic_id):
            return True
        self._let_go(found)
        return False

    def _keep_best(self, several: list[Log], assigned: bytes | None) -> None:
        def worth(found: Log) -> tuple[bool, bool, int, int, bool]:
            is_assigned, is_named = self.ids[found.directory] == assigned, found.topic_id is not None
            try:
                found.open()
            except DiskFailure as failure:
                self.check(failure)
                return False, is_named, -1, -1, is_assigned
            return True, is_named, found.epochs.latest, found.log_end_offset, is_assigned

        best = max(several, key=worth)
        for found in several:
            if found is not best:
                self.set_aside(found, f"The log {found.name} also lies in {best.directory.path}, and that one counts")

    # Stray logs and deletions

    def set_strays_aside(self, held: Set[tuple[str, int]]) -> None:
        """Rename logs that no topic of the metadata claims; those of deleted topics are deleted (KAFKA-15605)."""
        for directory in list(self.working):
            for key, found in list(directory.logs.items()):
                if key not in held and key[0] != METADATA_TOPIC:
                    self._let_go(found)
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Go on with the deletions that the end of the process before has interrupted."""
        for directory in self.working:
            for name in list(directory.leftovers):
                self.remove_later(directory, name, 0)

    def _let_go(self, found: Log) -> None:
        """Set a log that has no place here aside, or delete it if its topic is known to be deleted.

        In the latter case the node stopped between the topic's deletion and the renaming. (Kafka keeps such a log, as a
        stray.)
        """
        try:
            topic_id = found.topic_id or found.directory.read_topic_id(found)
        except DiskFailure as failure:
            self.check(failure)
            topic_id = None
        if topic_id in self.deleted_topics:
            self.delete(found, 0)
        else:
            self.set_aside(found)

    def set_aside(self, found: Log, reason: str = "") -> None:
        """Rename a log that has no place here as a stray; nothing of it is deleted."""
        try:
            name = found.directory.mark(found, names.STRAY_DIRECTORY)
        except DiskFailure as failure:
            self.check(failure)
        else:
            reason = reason or f"The log {found.name} belongs to no topic of this cluster"
            log.warning("%s. Nothing of it was deleted: it is now %s/%s", reason, found.directory.path, name)

    def delete(self, found: Log, delay_ms: int) -> None:
        """Take a log out of use and delete its files after ``delay_ms``.

        A flush or a compaction that is under way ends first: it uses the log's directory by its name.
        """
        found.end_compaction()
        if found.is_in_use:
            self._doomed.add(found)
            self.scheduler.call_later(USE_WAIT_MS, self.delete, found, delay_ms)
            return
        self._doomed.discard(found)
        try:
            name = found.directory.mark(found)
        except DiskFailure as failure:
            self.check(failure)
        else:
            self.remove_later(found.directory, name, delay_ms)

    def remove_later(self, directory: LogDirectory, name: str, delay_ms: int) -> None:
        """Remove a marked directory after ``delay_ms``, in a thread, since it takes time to free a gigabyte."""
        self.scheduler.call_later(delay_ms, self._remove_soon, directory, name)

    def _remove_soon(self, directory: LogDirectory, name: str) -> None:
        self._going.append((directory, name))
        if not self._is_removing:
            self._is_removing = True
            self.scheduler.call_soon(self._remove_some)

    def _remove_some(self) -> None:
        if not self._going or self._is_stopped:
            self._is_removing = False
            return
        some = [self._going.popleft() for _ in range(min(len(self._going), REMOVED_AT_ONCE))]

        def removed(failures: list[DiskFailure] | None, error: BaseException | None) -> None:
            if failures is None:
                log.error("The logs of deleted topics could not be removed because of a defect", exc_info=error)
            for failure in failures or ():
                self.check(failure)
            self._is_removing = bool(self._going)
            if self._going:
                self.scheduler.call_later(REMOVAL_PAUSE_MS, self._remove_some)

        self.scheduler.submit_upkeep(lambda: _remove(some), removed)

    def stop(self) -> None:
        """Stop removing: the next start continues with it."""
        self._is_stopped = True

    # Checkpoints

    def write_checkpoint(
        self, directory: LogDirectory, name: str, content: bytes, then: Callable[[], object] | None = None
    ) -> None:
        """Replace a checkpoint beside the loop; ``then`` is called when it is written, or the directory has failed."""

        def written(_result: None, error: BaseException | None) -> None:
            try:
                if isinstance(error, DiskFailure):
                    raise error
                directory.noted()
            except DiskFailure as failure:
                self.check(failure)
            if then is not None:
                then()

        self.scheduler.submit_upkeep(lambda: directory.write_checkpoint(name, content), written)

    # Failure

    def when_failed(self, listener: Callable[[LogDirectory], None]) -> None:
        """Call ``listener`` on the loop for each directory that fails."""
        self._failure_listeners.append(listener)

    def _failed(self, _directory: LogDirectory) -> None:
        """Have the loop take failed directories offline. This runs in the thread that met the failure, which may be in
        the middle of other work."""
        self.scheduler.call_soon_threadsafe(self._take_offline)

    def check(self, failure: DiskFailure) -> None:
        """Handle a failure that a log raised: take the directory offline, unless only that log is damaged."""
        if isinstance(failure, CorruptLog) and str(failure) not in self._reported:
            self._reported.add(str(failure))
            log.error("%s", failure)
        if isinstance(failure, TooManyOpenFiles) and self.scheduler.monotonic_ms() >= self._logged_ms + SAY_AGAIN_MS:
            self._logged_ms = self.scheduler.monotonic_ms()
            log.error("%s; raise the limit of open files (ulimit -n)", failure)
        self._take_offline()

    def _take_offline(self) -> None:
        for directory in [each for each in self.working if each.failure is not None]:
            self.working.remove(directory)
            self.failed.append(directory)
            log.error("%s", directory.offline())
            for listener in self._failure_listeners:
                listener(directory)
        if not self.working:
            failures = "; ".join(str(directory.offline()) for directory in self.failed)
            self._halt(f"no log directory is left: {failures}")


def _remove(marked: list[tuple[LogDirectory, str]]) -> list[DiskFailure]:
    """Remove these directories, in a thread; the failures."""
    failures = []
    for directory, name in marked:
        try:
            for _ in directory.remove(name):
                pass
        except DiskFailure as failure:
            failures.append(failure)
    return failures
