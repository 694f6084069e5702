"""Reading and searching records beside the loop: a bounded number of processes, and the searches that run in them.

A search reads the files of this node, then asks other nodes for the partitions that they have. It ends when enough was
found, when it is cancelled, or when nobody has asked for it for a while.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.machines.console.content import AUTO
from kpybroker.machines.console.filtering import NO_FILTER, FilterFields
from kpybroker.machines.console.record_tasks import (
    Answer,
    FoundRecord,
    PartitionFiles,
    RecordTask,
    SearchEnded,
    SearchProgress,
    Unreadable,
    work,
)
from kpybroker.monitoring.console.query import bad
from kpybroker.runtime.http.request import HttpRefused
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.disk import Disk
from kpystorage.real_disk import RealDisk

if TYPE_CHECKING:
    from kpybroker.runtime.io.worker import Worker, WorkerDied

MODULE: Final = "kpybroker.monitoring.console.reading_process"
MOST_SEARCHES: Final = 2
"""The searches that run at once."""
MOST_READS: Final = 2
"""The looks at records that are worked on at once."""
MOST_KEPT: Final = 16
MOST_WAITING: Final = 8
IDLE_MS: Final = 30_000
"""A search that nobody asks for ends after this time, and so does the process that waits for the next look."""
CHECK_MS: Final = 5_000
PATIENCE_S: Final = 30.0

SearchOther = Callable[[int, int | None, int], AsyncIterator[Answer]]
"""Searches a partition of another node from an offset on (None: from its start), for this number of records."""
OnAnswer = Callable[[Any], object]


class SearchTitle(NamedTuple):
    """The words of a search: its topic, its filter, its partition (None for all), and how records are shown."""

    topic: str = ""
    fields: FilterFields = NO_FILTER
    partition: int | None = None
    form: str = AUTO


class SearchedBefore(NamedTuple):
    """The sums of the searches before this one."""

    read_bytes: int = 0
    records: int = 0
    found: int = 0


NOTHING_BEFORE: Final = SearchedBefore()


class Search:
    """One search, as far as it is."""

    def __init__(
        self,
        task: RecordTask,
        title: SearchTitle,
        owner: str,
        total_bytes: int,
        elsewhere: tuple[int, ...] = (),
        partitions_left_out: int = 0,
        before: SearchedBefore = NOTHING_BEFORE,
    ) -> None:
        """``elsewhere``: the partitions that cannot be searched."""
        self.id = secrets.token_urlsafe(9)
        self.task = task
        self.title = title
        self.owner = owner
        self.total_bytes = total_bytes
        self.elsewhere = elsewhere
        self.partitions_left_out = partitions_left_out
        self.before = before
        self.started_ms = int(monotonic() * 1000)
        self.state = "running"
        self.reason = ""
        self.found: list[FoundRecord] = []
        self.unreadable: deque[Unreadable] = deque(maxlen=20)
        self.gaps = 0
        self.progress = SearchProgress(0, 0, -1, -1)
        self.next_offsets: dict[int, int] = {}
        self.others: dict[int, int | None] = {}
        """The partitions of other nodes that are not searched yet, and the offsets where it goes on in them."""
        self.search_other: SearchOther | None = None
        self.looked_ms = 0.0
        self.ended_ms: int | None = None
        self.cancel: Callable[[], object] = lambda: None

    @property
    def places_left(self) -> tuple[PartitionFiles, ...]:
        """The places that it has not read."""
        places = (
            each._replace(start_offset=self.next_offsets.get(each.partition, each.start_offset))
            for each in self.task.places
        )
        return tuple(each for each in places if each.start_offset < each.end_offset)

    @property
    def is_full(self) -> bool:
        """Whether it ended since it had found enough, before the end."""
        return self.state == "done" and bool(self.reason) and bool(self.places_left or self.others)

    @property
    def passed_s(self) -> float:
        """How long it has run."""
        return ((self.ended_ms or int(monotonic() * 1000)) - self.started_ms) / 1000

    def on_answer(self, answer: "Answer | WorkerDied") -> None:
        """Take the next answer of the process."""
        if self.state != "running":
            return
        match answer:
            case FoundRecord():
                self.found.append(answer)
            case Unreadable():
                self.unreadable.append(answer)
                self.gaps += 1
            case SearchProgress():
                self.progress = answer
            case SearchEnded():
                self.progress = self.progress._replace(read_bytes=answer.read_bytes, records=answer.records)
                self.next_offsets = dict(answer.next_offsets)
                if answer.reason or self.search_other is None or not self.others:
                    self._end("done", answer.reason)
                else:
                    self.cancel = asyncio.ensure_future(self._search_others(self.search_other)).cancel
            case _:
                self._end("failed", str(answer))

    async def _search_others(self, search_other: SearchOther) -> None:
        """Search the partitions of other nodes, one after the other."""
        for number, offset in list(self.others.items()):
            base = self.progress
            async for answer in search_other(number, offset, self.task.most - len(self.found)):
                if isinstance(answer, SearchProgress):
                    read_bytes, records = base.read_bytes + answer.read_bytes, base.records + answer.records
                    answer = answer._replace(read_bytes=read_bytes, records=records)
                    self.others[number] = answer.offset
                elif isinstance(answer, FoundRecord):
                    self.others[number] = answer.offset + 1
                self.on_answer(answer)
                if len(self.found) >= self.task.most:
                    self._end("done", f"{self.task.most} records were found")
                    return
            del self.others[number]
        self._end("done", "")

    def behind(self, task: RecordTask) -> "Search":
        """A search that goes on behind this one."""
        done, before = self.progress, self.before
        so_far = SearchedBefore(
            before.read_bytes + done.read_bytes, before.records + done.records, before.found + len(self.found)
        )
        return Search(task, self.title, self.owner, self.total_bytes, self.elsewhere, self.partitions_left_out, so_far)

    def end(self, state: str) -> None:
        """End it early."""
        if self.state == "running":
            self._end(state, "")
            self.cancel()

    def _end(self, state: str, reason: str) -> None:
        self.state, self.reason, self.ended_ms = state, reason, int(monotonic() * 1000)
        self.search_other = None


class Searches:
    """The searches of a node, and the processes for them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._searches: dict[str, Search] = {}
        self._idle: list[tuple[Worker, float]] = []
        self._busy: set[Worker] = set()
        self._reads = asyncio.Semaphore(MOST_READS)
        self._waiting = 0
        self._timer: Timer | None = None

    async def read(self, disk: Disk, task: RecordTask) -> list[Answer]:
        """All answers to a task that is short. Raises Refused if too many wait already."""
        if self._waiting >= MOST_WAITING:
            raise bad("too many look at records; try again in a moment")
        self._waiting += 1
        try:
            async with self._reads, asyncio.timeout(PATIENCE_S):
                return await self._read(disk, task)
        except TimeoutError:
            raise bad("reading these records takes too long; ask for fewer") from None
        finally:
            self._waiting -= 1

    async def _read(self, disk: Disk, task: RecordTask) -> list[Answer]:
        answers: list[Answer] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: "Answer | WorkerDied") -> None:
            if done.done():
                return
            if isinstance(answer, tuple):
                answers.append(answer)
                if not isinstance(answer, SearchEnded):
                    return
                done.set_result(None)
            else:
                done.set_exception(bad(f"these records cannot be read: {answer}"))

        cancel = self._begin(disk, task, on_answer)
        try:
            await done
        except asyncio.CancelledError:
            cancel()
            raise
        return answers

    def start(self, disk: Disk | None, search: Search) -> None:
        """Begin a search; without a disk it has partitions of other nodes only. Raises Refused if too many run."""
        running = [each for each in self._searches.values() if each.state == "running"]
        if len(running) >= MOST_SEARCHES:
            raise bad(f"{MOST_SEARCHES} searches run already; cancel one, or wait for its end")
        finished = [each.id for each in self._searches.values() if each.state != "running"]
        for number in finished[: max(0, len(self._searches) + 1 - MOST_KEPT)]:
            del self._searches[number]
        search.looked_ms = self._scheduler.monotonic_ms()
        self._searches[search.id] = search
        if disk is None:
            search.on_answer(SearchEnded("", ()))
            self._watch()
        else:
            search.cancel = self._begin(disk, search.task, search.on_answer)

    def find(self, number: str, owner: str) -> Search:
        """A search of this user. Raises Refused."""
        search = self._searches.get(number)
        if search is None or search.owner != owner:
            raise HttpRefused(HTTPStatus.NOT_FOUND, "there is no such search, or it is over for long")
        search.looked_ms = self._scheduler.monotonic_ms()
        return search

    def close(self) -> None:
        """End everything."""
        for search in self._searches.values():
            search.end("cancelled")
        for worker in [*self._busy, *(worker for worker, _ in self._idle)]:
            worker.stop()
        self._idle.clear()
        self._busy.clear()
        if self._timer is not None:
            self._timer.cancel()

    # Processes and threads

    def _begin(self, disk: Disk, task: RecordTask, on_answer: OnAnswer) -> Callable[[], None]:
        """Begin a task; the result is what cancels it."""
        self._watch()
        return (
            self._in_process(task, on_answer) if isinstance(disk, RealDisk) else self._in_thread(disk, task, on_answer)
        )

    def _in_process(self, task: RecordTask, on_answer: OnAnswer) -> Callable[[], None]:
        from kpybroker.runtime.io.worker import Worker

        worker = (
            self._idle.pop()[0]
            if self._idle
            else Worker(self._scheduler, MODULE, lambda each: isinstance(each, SearchEnded))
        )
        self._busy.add(worker)

        def answered(answer: "Answer | WorkerDied") -> None:
            if isinstance(answer, tuple) and not isinstance(answer, SearchEnded):
                on_answer(answer)
                return
            if worker in self._busy:
                self._busy.discard(worker)
                if isinstance(answer, SearchEnded) and not worker.is_stopped:
                    self._idle.append((worker, self._scheduler.monotonic_ms()))
                else:
                    worker.stop()
            on_answer(answer)

        worker.ask(task, answered)

        def cancel() -> None:
            self._busy.discard(worker)
            worker.stop()

        return cancel

    def _in_thread(self, disk: Disk, task: RecordTask, on_answer: OnAnswer) -> Callable[[], None]:
        """A disk in memory is seen by this process alone."""
        from kpybroker.runtime.io.one_off import in_thread

        cancelled = Event()

        def run() -> None:
            for answer in work(disk, task):
                if cancelled.is_set():
                    return
                self._scheduler.call_soon_threadsafe(on_answer, answer)

        def done(_result: None, error: BaseException | None) -> None:
            if error is not None and not cancelled.is_set():
                on_answer(SearchEnded(f"{type(error).__name__}: {error}", ()))

        in_thread(self._scheduler, run, done, "kpybroker-console")
        return cancelled.set

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_later(CHECK_MS, self._check)

    def _check(self) -> None:
        since_ms = self._scheduler.monotonic_ms() - IDLE_MS
        for search in self._searches.values():
            if search.looked_ms < since_ms:
                search.end("abandoned")
        for worker, idle_ms in self._idle:
            if idle_ms < since_ms:
                worker.stop()
        self._idle = [each for each in self._idle if not each[0].is_stopped]
        is_needed = self._idle or self._busy or any(each.state == "running" for each in self._searches.values())
        self._timer = self._scheduler.call_later(CHECK_MS, self._check) if is_needed else None


def _is_last(answer: object) -> bool:
    return isinstance(answer, SearchEnded)
