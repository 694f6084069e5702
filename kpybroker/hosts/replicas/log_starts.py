"""Log starts that followers take over from their leaders: a log's start moves when the new one is on disk.

So records that were deleted on all replicas, as DeleteRecords has reported, do not come back with a replica that died
since. (Apache Kafka moves at once and writes a minute later.) One write of a directory's checkpoint covers all new log
starts that came before it began.

Not here: log starts of leaders, which requests and retention move.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.directory import LogDirectory

PAUSE_MS: Final = 50.0
"""The pause between two writes: when retention shortens many logs one after the other, a few writes are enough."""


class LogStarts:
    """The new log starts of all followers of a node."""

    def __init__(self, scheduler: Scheduler, directories: Directories, moved: Callable[[Replica], object]) -> None:
        """``moved`` is called with every replica whose log start has moved."""
        self._scheduler = scheduler
        self._directories = directories
        self._moved = moved
        self._wanted: dict[LogDirectory, dict[Replica, int]] = {}
        self._being_written: dict[LogDirectory, dict[Replica, int]] = {}
        """The log starts that are being written, by directory. A directory also stays here for the pause after a
        write."""

    def __bool__(self) -> bool:
        """Whether some log's start is about to move."""
        return bool(self._wanted) or any(self._being_written.values())

    def take_over(self, replica: Replica, offset: int) -> None:
        """Move the start of a follower's log to ``offset``, which is committed here."""
        found = replica.log
        assert found is not None
        directory = found.directory
        under_way = self._being_written.get(directory)
        if under_way is None or under_way.get(replica, -1) < offset:
            directory.promise_log_start(found, offset)
            self._wanted.setdefault(directory, {})[replica] = offset
            if under_way is None:
                self._write(directory)

    def _write(self, directory: LogDirectory) -> None:
        wanted = self._wanted.pop(directory, None)
        if wanted is None or directory.failure is not None:
            self._being_written.pop(directory, None)
            return
        self._being_written[directory] = wanted
        content = directory.render_log_starts()
        self._directories.write_checkpoint(directory, names.LOG_STARTS, content, partial(self._written, directory))

    def _written(self, directory: LogDirectory) -> None:
        written, self._being_written[directory] = self._being_written[directory], {}
        self._scheduler.call_later(PAUSE_MS, self._write, directory)
        if directory.failure is not None:
            return
        for replica, offset in written.items():
            role = replica.role
            if role is None or not role.log.is_open or role.log.directory is not directory:
                continue
            was_cut = offset > role.high_watermark.offset
            if not was_cut and role.log.advance_log_start(offset):
                self._moved(replica)
