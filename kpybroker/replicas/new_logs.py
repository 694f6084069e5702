"""The files of new partitions, made in a thread: where many were removed a file system takes milliseconds for each.

They are made in a directory whose name says that it waits for its removal, so a crash leaves nothing of them. The loop
renames what is complete, which takes microseconds. Whoever needs a log before that makes it at once, and what the
thread makes of it is removed.

Invariant: the thread writes only where no log is; what it made becomes one log, or is removed.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.errors import KafkaError
from kpybroker.io.scheduler import Scheduler
from kpybroker.replicas.directories import Directories
from kpybroker.replicas.replica import Replica
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure

log = logging.getLogger("kpybroker.replicas")

AT_ONCE: Final = 16
"""So many logs are looked at in a turn of the loop, and made between two looks at which of them are needed still."""


class Place(NamedTuple):
    """Where a log is to be, and the name of its files until then."""

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
        """``choose`` says where a log is to be; ``take_up`` makes it of what `take` gives, or takes up what is there.
        KafkaError, DiskFailure."""
        self._directories = directories
        self._scheduler = scheduler
        self._choose = choose
        self._take_up = take_up
        self._waiting: deque[Replica] = deque()
        self._making: dict[Replica, Place] = {}
        self._made: dict[Replica, Place] = {}
        self._is_busy = self._is_stopped = False

    def add(self, replica: Replica) -> None:
        """Have its log made soon."""
        self._waiting.append(replica)
        if not self._is_busy:
            self._is_busy = True
            self._scheduler.call_soon(self._begin)

    def stop(self) -> None:
        """Make no more: the node stops."""
        self._is_stopped = True

    def take(self, replica: Replica) -> tuple[LogDirectory | None, str | None]:
        """The directory that was chosen for its log, if one was; and the name of its files, once they are made. They
        are the caller's."""
        place = self._making.pop(replica, None)
        if place is not None:
            place.directory.in_the_making -= 1
            return place.directory, None
        place = self._made.pop(replica, None)
        if place is not None:
            place.directory.in_the_making -= 1
            return place.directory, place.name
        return None, None

    def _begin(self) -> None:
        """Choose places, and have the thread fill them."""
        places: dict[Replica, Place] = {}
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
                log.error("logs could not be made", exc_info=error)
                failures = [None] * len(places)
            self._scheduler.in_pieces(self._finish(places, failures))

        self._scheduler.submit_blocking(lambda: [place.make() for place in places.values()], made)

    def _place(self, replica: Replica) -> Place | None:
        try:
            directory = self._choose(replica)
            name = directory.name_blank(replica.topic.name, replica.index)
        except KafkaError as error:
            log.debug("%s is not made yet: %s", replica, error)
            return None
        except Exception:
            log.exception("there is no place for %s", replica)  # the others have one
            return None
        directory.in_the_making += 1
        return Place(directory, name, replica.topic.id)

    def _finish(self, places: dict[Replica, Place], failures: list[DiskFailure | None]) -> Iterator[None]:
        """Let the logs be: one a step."""
        try:
            for (replica, place), failure in zip(places.items(), failures, strict=True):
                try:
                    if failure is not None:
                        self._directories.check(failure)
                    self._settle(replica, place, is_made=failure is None)
                except Exception:
                    log.exception("%s is not made", replica)  # the others are
                    if place in (self._making.get(replica), self._made.get(replica)):
                        self.take(replica)
                yield
        finally:
            self._is_busy = False
        self._begin()

    def _settle(self, replica: Replica, place: Place, *, is_made: bool) -> None:
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
            log.exception("%s is not taken up", replica)


def _is_needed(replica: Replica) -> bool:
    return not (replica.gone or replica.offline) and replica.log is None
