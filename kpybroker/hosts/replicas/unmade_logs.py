"""Leaders whose logs have no files yet: a thread makes them, some at a time (`kpystorage.unmade`).

A node whose disk was lost begins to lead thousands of them at once, and reads need no files. So they are made when no
more begin, and at once where a producer waits for them.

Invariant: the files of a log whose role has ended meanwhile are removed; they never become a log.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.errors import DiskFailure
from kpystorage.log import Log
from kpystorage.unmade import Making, finish, making

log = logging.getLogger("kpybroker.replicas")

AT_ONCE: Final = 16
"""The number of logs that the thread makes before the loop checks again which are needed first."""
QUIET_MS: Final = 50
"""The time without a further log after which their files are made."""
AGAIN_MS: Final = 1_000
"""The pause after a failure."""
Made = list[tuple[Replica, Log, Making]]


class UnmadeLogs:
    """The logs of leaders without files."""

    def __init__(self, directories: Directories, scheduler: Scheduler) -> None:
        self._directories = directories
        self._scheduler = scheduler
        self._waiting: dict[Replica, Log] = {}
        self._needed: dict[Replica, None] = {}
        """The replicas whose producers wait."""
        self._added_ms = 0.0
        self._is_busy = self._is_due = self._is_stopped = False

    def add(self, replica: Replica, found: Log) -> None:
        """Have the files of a leader's log made later."""
        before = self._waiting.get(replica)
        if before is not None:
            before.directory.in_the_making -= 1
        found.directory.in_the_making += 1
        self._waiting[replica] = found
        self._added_ms = self._scheduler.monotonic_ms()
        self._look_in(QUIET_MS)

    def need(self, replica: Replica) -> None:
        """Have them made now."""
        if replica in self._waiting and replica not in self._needed:
            self._needed[replica] = None
            self._scheduler.call_soon(self._begin)

    def stop(self) -> None:
        """Make no more: the node stops, and finds in the store again where they begin."""
        self._is_stopped = True

    def _look_in(self, pause_ms: float) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_later(pause_ms, self._look)

    def _look(self) -> None:
        self._is_due = False
        quiet_ms = self._scheduler.monotonic_ms() - self._added_ms
        if quiet_ms < QUIET_MS:
            self._look_in(QUIET_MS - quiet_ms)
        else:
            self._begin()

    def _begin(self) -> None:
        """Have the thread make the next ones."""
        if self._is_busy or self._is_stopped:
            return
        some: Made = []
        while len(some) < AT_ONCE and (replica := self._next()) is not None:
            found = self._waiting.pop(replica)
            if _is_wanted(replica, found):
                some.append((replica, found, making(found)))
            else:
                found.directory.in_the_making -= 1
        if some:
            self._is_busy = True
            work = partial(_make, [each for _, _, each in some])
            self._scheduler.submit_blocking(work, partial(self._made, some))

    def _next(self) -> Replica | None:
        while self._needed:
            replica = next(iter(self._needed))
            del self._needed[replica]
            if replica in self._waiting:
                return replica
        is_quiet = self._scheduler.monotonic_ms() - self._added_ms >= QUIET_MS
        return next(iter(self._waiting), None) if is_quiet else None

    def _made(self, some: Made, failure: DiskFailure | None, error: BaseException | None) -> None:
        if error is not None:
            log.error("The files of logs could not be made because of a defect", exc_info=error)
        self._scheduler.in_pieces(self._finish(some, failure, is_made=failure is None and error is None))

    def _finish(self, some: Made, failure: DiskFailure | None, *, is_made: bool) -> Iterator[None]:
        if failure is not None:
            self._directories.check(failure)
        for replica, found, made in some:
            found.directory.in_the_making -= 1
            try:
                self._settle(replica, found, made, is_made=is_made)
            except DiskFailure as again:
                self._directories.check(again)
            except Exception:
                log.exception("The files of %s could not be made because of a defect", replica)
            yield
        self._is_busy = False
        if is_made:
            self._begin()
        if self._waiting:
            self._look_in(QUIET_MS if is_made else AGAIN_MS)

    def _settle(self, replica: Replica, found: Log, made: Making, *, is_made: bool) -> None:
        if is_made and _is_wanted(replica, found):
            finish(found, made, self._scheduler.now_ms())
            return
        self._directories.remove_later(made.directory, made.name, 0)
        if _is_wanted(replica, found):
            found.directory.in_the_making += 1
            self._waiting[replica] = found


def _is_wanted(replica: Replica, found: Log) -> bool:
    leads = replica.leader is not None and replica.leader.log is found
    return leads and not replica.offline and found.need_files is not None


def _make(some: list[Making]) -> DiskFailure | None:
    """Runs in a thread."""
    try:
        for each in some:
            each.run()
    except DiskFailure as failure:
        return failure
    return None
