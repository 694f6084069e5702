"""The process beside the loop: each client gets its turn, and the process ends when nobody wants anything."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.hosts.labour import labour
from kpybroker.hosts.labour.labour import IDLE_MS, MOST_HELD_BYTES, MOST_HELD_OF_ONE_BYTES, Labour
from kpybroker.hosts.labour.tasks import BatchSearch, Located, Overloaded, TaskFailed
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import LoopScheduler, ManualScheduler
from kpybroker.runtime.io.worker import WorkerDied
from kpywire.record import Record, build_batch
from kpywire.walk import ANY_SIZE

BATCH = build_batch([Record(timestamp=7, value=b"x")])
FOUND = Located((7, 0))


class HandWorker:
    """A worker whose answers the test gives."""

    made: list["HandWorker"]

    def __init__(self, _scheduler: object, module: str, is_last: Callable[[Any], bool]) -> None:
        self.module, self.is_last = module, is_last
        self.tasks: list[tuple[Any, Callable[[Any], object]]] = []
        self.is_stopped = False
        HandWorker.made.append(self)

    def ask(self, task: Any, on_answer: Callable[[Any], object]) -> None:
        self.tasks.append((task, on_answer))

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> ManualScheduler:
    HandWorker.made = []
    monkeypatch.setattr(labour, "Worker", HandWorker)
    return ManualScheduler()


def search(number: int, size: int = 1) -> BatchSearch:
    return BatchSearch(bytes(size), number, 0, ANY_SIZE)


def answered(pending: Pending) -> Any:
    return pending.response if pending.resolved else None


def test_clients_take_turns_whatever_the_number_of_their_questions(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    for number in range(20):
        service.ask("greedy", search(number))
    wanted = service.ask("modest", search(100))
    (worker,) = HandWorker.made
    for _ in range(2):
        assert not wanted.resolved
        scheduler.advance(1000)
        worker.tasks[-1][1](FOUND)
    assert answered(wanted) == FOUND
    assert [task.timestamp for task, _ in worker.tasks] == [0, 100, 1]


def test_a_question_that_is_taken_back_is_not_asked(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    first, second, third = (service.ask("one", search(number)) for number in range(3))
    second.cancel()
    first.cancel()
    (worker,) = HandWorker.made
    worker.tasks[0][1](FOUND)
    assert [task.timestamp for task, _ in worker.tasks] == [0, 2]
    worker.tasks[1][1](FOUND)
    assert answered(third) == FOUND
    assert not first.resolved
    assert not second.resolved


def test_bytes_that_wait_are_bounded_and_a_question_that_is_taken_back_frees_its_own(
    scheduler: ManualScheduler,
) -> None:
    service = Labour(scheduler)
    half = MOST_HELD_BYTES // 2
    service.ask("a", search(0, half))
    waiting = service.ask("b", search(1, half))
    assert answered(service.ask("c", search(2))) == Overloaded()
    waiting.cancel()
    assert not service.ask("c", search(3, half)).resolved
    assert answered(service.ask("d", search(4))) == Overloaded()
    (worker,) = HandWorker.made
    worker.tasks[0][1](FOUND)
    assert not service.ask("d", search(5, half)).resolved


def test_one_client_cannot_fill_the_queue_of_long_work(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    some = MOST_HELD_OF_ONE_BYTES // 8
    greedy = [service.ask("greedy", search(number, some)) for number in range(100)]
    assert [each.resolved for each in greedy] == [False] * 8 + [True] * 92
    assert not service.ask("modest", search(100, some)).resolved
    greedy[5].cancel()
    assert not service.ask("greedy", search(101, some)).resolved
    assert answered(service.ask("greedy", search(102, some))) == Overloaded()


def test_a_batch_above_the_limit_is_taken_when_nothing_else_waits(scheduler: ManualScheduler) -> None:
    assert not Labour(scheduler).ask("a", search(0, MOST_HELD_BYTES + 1)).resolved


def test_a_process_that_dies_fails_one_question_and_the_next_is_answered(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    first, second = service.ask("a", search(0)), service.ask("b", search(1))
    (worker,) = HandWorker.made
    worker.tasks[0][1](WorkerDied("signal 9"))
    assert isinstance(answered(first), TaskFailed)
    worker.tasks[1][1](FOUND)
    assert answered(second) == FOUND


def test_the_process_ends_when_there_was_nothing_to_do_for_a_while(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    service.ask("a", search(0))
    (worker,) = HandWorker.made
    worker.tasks[0][1](FOUND)
    scheduler.advance(IDLE_MS - 1)
    service.ask("a", search(1))
    scheduler.advance(2 * IDLE_MS)
    assert not worker.is_stopped, "it is at work"
    worker.tasks[1][1](FOUND)
    scheduler.advance(IDLE_MS)
    assert worker.is_stopped
    service.ask("a", search(2))
    assert len(HandWorker.made) == 2


def test_no_work_starts_after_the_end(scheduler: ManualScheduler) -> None:
    service = Labour(scheduler)
    service.ask("a", search(0))
    service.ask("a", search(1))
    (worker,) = HandWorker.made
    service.stop()
    worker.tasks[0][1](WorkerDied("signal 9"))
    assert len(worker.tasks) == len(HandWorker.made) == 1


def test_a_real_process_answers() -> None:
    async def ask() -> Any:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        service = Labour(scheduler)
        done = asyncio.get_running_loop().create_future()
        service.ask("a", BatchSearch(BATCH, 7, 0, ANY_SIZE)).when_resolved(done.set_result)
        try:
            return await done
        finally:
            service.stop()
            await scheduler.close()

    assert asyncio.run(ask()) == FOUND
