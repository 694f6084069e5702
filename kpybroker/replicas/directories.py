"""The log directories of this node: which works, where a log is or should be made, what is on its way out.

A directory that fails goes offline alone; a node without any working directory cannot go on.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import NamedTuple

from kpybroker.errors import KafkaError
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.topic import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from kpystorage import names
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.errors import CorruptLog, DiskFailure, TooManyOpenFiles
from kpystorage.log import Log
from kpywire import error_codes

log = logging.getLogger("kpybroker.replicas")

EVERY_DIRECTORY = "*"
REMOVED_AT_ONCE = 16
"""So many directories are removed between two looks at whether the node stops."""
REMOVAL_PAUSE_MS = 1
"""For others that want a thread."""
FLUSH_WAIT_MS = 2
SAY_AGAIN_MS = 10_000.0
MOST_PREFERRED = 10_000
"""So many partitions that are not here yet may have a directory chosen for them."""


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
        """``unusable`` are the paths of configured directories that did not even come up."""
        self._unusable = list(unusable)
        self.working: list[LogDirectory] = [each.directory for each in directories]
        self.failed: list[LogDirectory] = []
        self.ids = {each.directory: each.id for each in directories}
        self.scheduler = scheduler
        self._halt = halt
        self._cordoned: frozenset[str] = frozenset()
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self.deleted_topics: dict[bytes, str] = {}
        """Ids and names of topics that the metadata log says were deleted before this start, as far as it goes back."""
        self._doomed: set[Log] = set()
        """Logs of deleted topics that are still being flushed."""
        self._going: deque[tuple[LogDirectory, str]] = deque()
        """Marked directories that are to be removed now."""
        self._is_removing = self._is_stopped = False
        self._reported: set[str] = set()
        """What is said once of a damaged log, however often it is asked for."""
        self._said_ms = -SAY_AGAIN_MS
        """When it was last said that descriptors are missing."""
        self._failure_listeners: list[Callable[[LogDirectory], None]] = []
        self._gatherings = list(
            {id(each.directory.disk): each.directory.disk.gathering for each in directories}.values()
        )
        for directory in self.working:
            directory.on_failure = self._failed

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self.working)

    # Writing (what `kpybroker.server.turn` asks for)

    def gather(self) -> None:
        """Let appends wait for each other until `settle`."""
        for gathering in self._gatherings:
            gathering.is_on = True

    def stop_gathering(self) -> None:
        """Write appends at once. What waits goes on waiting for `settle`."""
        for gathering in self._gatherings:
            gathering.is_on = False

    def settle(self) -> bool:
        """Write what waits; whether all of it is written. A directory that does not take it is offline then."""
        is_written = True
        for gathering in self._gatherings:
            if gathering.files or gathering.failures:
                for path, error in gathering.settle():
                    is_written = False
                    self._lost(path, error)
        return is_written

    def _lost(self, path: str, error: OSError) -> None:
        """What waited for a file of one of the directories could not be written."""
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
        """The log of a partition; one of an earlier topic of the same name is set aside."""
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
                self.set_aside(found, f"nobody knows which topic of its name has the log {found.name}")
                return None
            found.directory.write_topic_id(found, topic_id)  # the machine died before it was on disk
            found.topic_id = topic_id
        return found

    def for_new_log(self, topic: str, index: int, assigned: bytes) -> LogDirectory:
        """The directory that somebody chose, that the metadata assign, or that has the fewest logs
        (``LogManager.getOrCreateLog``)."""
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
        """The directory that a request names as the place for a log, by its absolute path. KafkaError if it is none."""
        for directory in self.working:
            if directory.path == path:
                if self.is_cordoned(directory):
                    raise KafkaError(error_codes.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
                return directory
        if path in self.failed_paths:
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        raise KafkaError(error_codes.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")

    def prefer(self, partition: tuple[str, int], directory: LogDirectory) -> None:
        """Make the log of a partition in this directory, should it come."""
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
        """The directories that do not work, now or since the start."""
        return [*self._unusable, *(directory.path for directory in self.failed)]

    def offline_ids(self) -> list[bytes]:
        """What a heartbeat reports."""
        return [self.ids[directory] for directory in self.failed]

    def cordoned_ids(self) -> list[bytes]:
        """What a heartbeat reports, too."""
        return [directory_id for directory, directory_id in self.ids.items() if self.is_cordoned(directory)]

    def keep_one_of_each(
        self, assigned: Callable[[str, int], bytes | None], topic_id: Callable[[str], bytes | None]
    ) -> None:
        """Of a partition with a log in several directories one counts and the others are set aside.

        What is of an earlier topic of the name does not count at all.

        The machine died in the step that ended a move, and one of its two renamings was lost; or a directory is back
        that was given up. The log that was led last goes on, of two such the longer one; what the metadata say decides
        only between equals.
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
        """Whether a log is of the topic with this id or does not say of which; it goes if neither."""
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
                self.set_aside(found, f"{best.directory.path} has another log of {found.name}, which counts")

    # What goes

    def set_strays_aside(self, held: Set[tuple[str, int]]) -> None:
        """Logs that no topic of the metadata claims are renamed; those of deleted topics go (KAFKA-15605)."""
        for directory in list(self.working):
            for key, found in list(directory.logs.items()):
                if key not in held and key[0] != METADATA_TOPIC:
                    self._let_go(found)
            for name in list(directory.leftovers):
                self.remove_later(directory, name, 0)

    def _let_go(self, found: Log) -> None:
        """A log that has no place here is kept under another name, unless its topic is known to be deleted.

        The node stopped between the deletion and the renaming then. (Kafka keeps such a log, as a stray.)
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
        """Give a log that has no place here a name that says so; nothing of it is deleted."""
        try:
            name = found.directory.mark(found, names.STRAY_DIRECTORY)
        except DiskFailure as failure:
            self.check(failure)
        else:
            reason = reason or f"no topic of this cluster has the log {found.name}"
            log.warning("%s: it is kept as %s/%s", reason, found.directory.path, name)

    def delete(self, found: Log, delay_ms: int) -> None:
        """Take a log out of use and its files off the disk after ``delay_ms``.

        A flush of it that is under way ends first: its thread knows the files by the names they have now.
        """
        if found.is_flushing:
            self._doomed.add(found)
            self.scheduler.call_later(FLUSH_WAIT_MS, self.delete, found, delay_ms)
            return
        self._doomed.discard(found)
        try:
            name = found.directory.mark(found)
        except DiskFailure as failure:
            self.check(failure)
        else:
            self.remove_later(found.directory, name, delay_ms)

    def remove_later(self, directory: LogDirectory, name: str, delay_ms: int) -> None:
        """Remove a marked directory after ``delay_ms``, in a thread: it takes a while to free a gigabyte."""
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
                log.error("logs of deleted topics could not be removed", exc_info=error)
            for failure in failures or ():
                self.check(failure)
            self._is_removing = bool(self._going)
            if self._going:
                self.scheduler.call_later(REMOVAL_PAUSE_MS, self._remove_some)

        self.scheduler.submit_blocking(lambda: _remove(some), removed)

    def stop(self) -> None:
        """Remove no more: the next start goes on with it."""
        self._is_stopped = True

    # Checkpoints

    def write_checkpoint(
        self, directory: LogDirectory, name: str, content: bytes, then: Callable[[], object] | None = None
    ) -> None:
        """Replace a checkpoint beside the loop; ``then`` is called when it is there, or the directory has failed."""

        def written(_result: None, error: BaseException | None) -> None:
            try:
                if isinstance(error, DiskFailure):
                    raise error
                directory.noted()
            except DiskFailure as failure:
                self.check(failure)
            if then is not None:
                then()

        self.scheduler.submit_blocking(lambda: directory.write_checkpoint(name, content), written)

    # Failure

    def when_failed(self, listener: Callable[[LogDirectory], None]) -> None:
        """Call ``listener`` on the loop for each directory that fails."""
        self._failure_listeners.append(listener)

    def _failed(self, _directory: LogDirectory) -> None:
        """In the thread that met the failure, which may be in the middle of something."""
        self.scheduler.call_soon_threadsafe(self._take_offline)

    def check(self, failure: DiskFailure) -> None:
        """A log raised this: take the directory offline, unless only that log is damaged."""
        if isinstance(failure, CorruptLog) and str(failure) not in self._reported:
            self._reported.add(str(failure))
            log.error("%s", failure)
        if isinstance(failure, TooManyOpenFiles) and self.scheduler.monotonic_ms() >= self._said_ms + SAY_AGAIN_MS:
            self._said_ms = self.scheduler.monotonic_ms()
            log.error("%s; raise the limit of open files (ulimit -n)", failure)
        self._take_offline()

    def _take_offline(self) -> None:
        for directory in [each for each in self.working if each.failure is not None]:
            self.working.remove(directory)
            self.failed.append(directory)
            log.error("log directory %s is offline: %s", directory.path, directory.failure)
            for listener in self._failure_listeners:
                listener(directory)
        if not self.working:
            self._halt("no log directory is left")


def _remove(marked: list[tuple[LogDirectory, str]]) -> list[DiskFailure]:
    """Remove these directories, in a thread; what failed of it."""
    failures = []
    for directory, name in marked:
        try:
            for _ in directory.remove(name):
                pass
        except DiskFailure as failure:
            failures.append(failure)
    return failures
