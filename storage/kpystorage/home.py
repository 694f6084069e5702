"""A log directory as its logs see it: the place of their files, and whether it works.

A directory fails as a whole: the first write or fsync that fails takes it offline for good (``failure`` is set), and
everything asked of its logs then raises :class:`~kpystorage.errors.DiskFailure`. Nothing is ever retried, except a call
that failed for want of a descriptor before anything was done.

Not here: the logs and the checkpoints of the directory (:mod:`kpystorage.directory`).
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from types import TracebackType
from typing import Final, Protocol

from kpystorage.disk import DescriptorsExhausted, Disk
from kpystorage.disk_errors import in_words
from kpystorage.errors import DiskFailure, TooManyOpenFiles
from kpystorage.log_config import LogConfig
from kpystorage.log_folder import LogFolder
from kpystorage.session import DirectorySession

MOST_REMOVED_AT_ONCE: Final = 16


class Randomness(Protocol):
    """A source of random bits, such as ``random.Random``."""

    def getrandbits(self, k: int, /) -> int: ...


class Failing:
    """``with failing:`` around work on files: an OSError inside becomes the failure of their owner.

    ``fail`` receives the error and returns the exception to raise instead. May be entered by several threads.
    """

    __slots__ = ("_fail",)

    def __init__(self, fail: Callable[[OSError], Exception]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise self._fail(error) from error


class Home:
    """The directory of some logs."""

    def __init__(self, path: str, disk: Disk, rng: Randomness, report: Callable[[str], None]) -> None:
        self.path = path.rstrip("/") or "/"
        self.disk = disk
        self.report = report
        self.failure: OSError | None = None
        """The error that took the directory offline; None while it works."""
        self._rng = rng
        self._session = DirectorySession(disk, self.path)
        self._guard = Failing(self.fail)
        self._due: list[tuple[int, int, LogFolder, str]] = []  # a heap; the second number makes all different
        self._set_aside = 0

    def fail(self, error: OSError) -> DiskFailure:
        """Take the directory offline, unless only a descriptor was missing; the exception to raise. From any thread."""
        if isinstance(error, DescriptorsExhausted):
            return TooManyOpenFiles(f"{error.filename} cannot be opened now: {error.strerror}")
        if self.failure is None:
            self.failure = error
            self._session.distrust()
            self.was_failed()
        return self.offline()

    def offline(self) -> DiskFailure:
        """The exception for any use of an offline directory."""
        return DiskFailure(f"log directory {self.path} is offline: {self.failure and in_words(self.failure)}")

    def failing(self) -> Failing:
        """``with directory.failing():`` an OSError inside takes the directory offline and becomes a DiskFailure."""
        return self._guard

    def delete_later(self, folder: LogFolder, name: str, due_ms: int) -> None:
        """Have a file that was set aside removed when its time comes (used by the logs)."""
        self._set_aside += 1
        heappush(self._due, (due_ms, self._set_aside, folder, name))

    def delete_due_files(self, now_ms: int, at_most: int = MOST_REMOVED_AT_ONCE) -> int:
        """Remove files set aside whose ``file.delete.delay.ms`` is over; at most ``at_most`` now. Return how many.
        DiskFailure."""
        due = self.take_due_files(now_ms, at_most)
        self.remove_files(due)
        return len(due)

    def take_due_files(self, now_ms: int, at_most: int = MOST_REMOVED_AT_ONCE) -> list[tuple[LogFolder, str]]:
        """Take the files set aside whose time is over, for :meth:`remove_files`. No other caller gets them again."""
        taken: list[tuple[LogFolder, str]] = []
        while self._due and self._due[0][0] <= now_ms and len(taken) < at_most:
            _, _, folder, name = heappop(self._due)
            taken.append((folder, name))
        return taken

    def remove_files(self, files: Iterable[tuple[LogFolder, str]]) -> None:
        """Remove files. May run in a thread: it takes a while to free a gigabyte. DiskFailure."""
        with self._guard:
            for folder, name in files:
                folder.unlink(name)

    def draw_jitter_ms(self, config: LogConfig) -> int:
        """Draw the time by which a segment is rolled earlier than ``segment.ms``."""
        if config.segment_jitter_ms <= 0:
            return 0
        return self._rng.getrandbits(31) % max(min(config.segment_jitter_ms, config.segment_ms), 1)

    def names_changed(self) -> None:
        """Note that this node has made or replaced a file beside the logs. From any thread. May raise OSError."""
        self._session.changed()

    def was_failed(self) -> None:
        """Called once when the directory has failed, in the thread that met the failure."""
