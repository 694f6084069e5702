"""The files of new partitions, made in a thread: after many removals a file system takes milliseconds for each.

They are made in a directory whose name marks it for removal, so a crash leaves nothing of them. The loop renames
complete ones, which takes microseconds. If a log is needed before that, it is made at once, and the thread's files for
it are removed.

Invariant: the thread writes only where no log is; what it made becomes one log, or is removed.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure

log = logging.getLogger("kpybroker.replicas")

AT_ONCE: Final = 16
"""How many logs are handled in one turn of the loop, and made by the thread before the loop checks again which of them
are needed."""


class NewLogPlace(NamedTuple):
    """The directory of a new log, and the name of its files until it is one."""

    directory: LogDirectory
    name: str
    topic_id: bytes

    def make(self) -> DiskFailure | None:
        """Make the files, in a thread."""
        try:
            self.directory.make_blank(self.name, self.topic_id)
        except DiskFailure as failure:
            return failure
        return None


class NewLogs:
    """Partitions whose logs are to be made."""

    def __init__(
        self,
        directories: Directories,
        scheduler: Scheduler,
        choose: Callable[[Replica], LogDirectory],
        take_up: Callable[[Replica], object],
    ) -> None:
        """``choose`` returns the directory of a new log. ``take_up`` makes it the log with the files that `take`
        returns, or opens the existing one. KafkaError, DiskFailure."""
        self._directories = directories
        self._scheduler = scheduler
        self._choose = choose
        self._take_up = take_up
        self._waiting: deque[Replica] = deque()
        self._making: dict[Replica, NewLogPlace] = {}
        self._made: dict[Replica, NewLogPlace] = {}
        self._placed: dict[Replica, LogDirectory] = {}
        self._is_busy = self._is_stopped = False

    def add(self, replica: Replica) -> None:
        """Have the log of a replica made soon."""
        self._waiting.append(replica)
        if not self._is_busy:
            self._is_busy = True
            self._scheduler.call_soon(self._begin)

    def place(self, replica: Replica) -> LogDirectory | None:
        """Choose the directory of a log that is made when it is needed; None if there is none for it now."""
        directory = self._placed.get(replica)
        if directory is None:
            try:
                directory = self._choose(replica)
            except KafkaError as error:
                log.debug("%s has no place yet: %s", replica, error)
                return None
            directory.in_the_making += 1
            self._placed[replica] = directory
        return directory

    def forget(self, replica: Replica) -> None:
        """Forget the place that was chosen: the partition is gone."""
        directory = self._placed.pop(replica, None)
        if directory is not None:
            directory.in_the_making -= 1

    def stop(self) -> None:
        """Stop making logs: the node stops."""
        self._is_stopped = True

    def take(self, replica: Replica) -> tuple[LogDirectory | None, str | None]:
        """Return the directory that was chosen for a replica's log, if any, and the name of its files, if they are
        made. They belong to the caller from then on."""
        place = self._making.pop(replica, None)
        if place is not None:
            place.directory.in_the_making -= 1
            return place.directory, None
        place = self._made.pop(replica, None)
        if place is not None:
            place.directory.in_the_making -= 1
            return place.directory, place.name
        directory = self._placed.pop(replica, None)
        if directory is not None:
            directory.in_the_making -= 1
        return directory, None

    def _begin(self) -> None:
        """Choose directories, and have the thread make the files."""
        places: dict[Replica, NewLogPlace] = {}
        for _ in range(min(AT_ONCE, len(self._waiting))):
            replica = self._waiting.popleft()
            if replica.gone or self._is_stopped:
                continue
            if not _is_needed(replica):
                self._take_over(replica)
                continue
            place = self._place(replica)
            if place is not None:
                places[replica] = place
        self._is_busy = bool(places or self._waiting)
        if not places:
            if self._waiting:
                self._scheduler.call_soon(self._begin)
            return
        self._making |= places

        def made(failures: list[DiskFailure | None] | None, error: BaseException | None) -> None:
            if failures is None:
                log.error("New logs could not be made because of a defect", exc_info=error)
                failures = [None] * len(places)
            self._scheduler.in_pieces(self._finish(places, failures))

        self._scheduler.submit_blocking(lambda: [place.make() for place in places.values()], made)

    def _place(self, replica: Replica) -> NewLogPlace | None:
        try:
            directory = self._choose(replica)
            name = directory.name_blank(replica.topic.name, replica.index)
        except KafkaError as error:
            log.debug("%s is not made yet: %s", replica, error)
            return None
        except Exception:
            log.exception("No directory could be chosen for %s because of a defect", replica)  # the others have one
            return None
        directory.in_the_making += 1
        return NewLogPlace(directory, name, replica.topic.id)

    def _finish(self, places: dict[Replica, NewLogPlace], failures: list[DiskFailure | None]) -> Iterator[None]:
        """Make the finished files logs, one in a step."""
        try:
            for (replica, place), failure in zip(places.items(), failures, strict=True):
                try:
                    if failure is not None:
                        self._directories.check(failure)
                    self._settle(replica, place, is_made=failure is None)
                except Exception:
                    log.exception("The log of %s could not be made because of a defect", replica)  # the others are
                    if place in (self._making.get(replica), self._made.get(replica)):
                        self.take(replica)
                yield
        finally:
            self._is_busy = False
        self._begin()

    def _settle(self, replica: Replica, place: NewLogPlace, *, is_made: bool) -> None:
        if self._making.get(replica) is place:
            if is_made and _is_needed(replica):
                self._made[replica] = self._making.pop(replica)
                self._take_over(replica)
                if replica not in self._made:
                    return
            self.take(replica)
        self._take_over(replica)  # also where somebody has asked for the log meanwhile: that lets nobody fetch to it
        self._directories.remove_later(place.directory, place.name, 0)

    def _take_over(self, replica: Replica) -> None:
        try:
            self._take_up(replica)
        except DiskFailure as failure:
            self._directories.check(failure)
        except KafkaError as error:
            log.debug("%s is not made yet: %s", replica, error)
        except Exception:
            log.exception("%s could not take up its role because of a defect", replica)


def _is_needed(replica: Replica) -> bool:
    return not (replica.gone or replica.offline) and replica.log is None
