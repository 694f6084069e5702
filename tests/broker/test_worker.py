"""A module in a process beside the loop: its answers, its death, its end at a request or when nobody is left."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kpybroker.runtime.io.scheduler import LoopScheduler
from kpybroker.runtime.io.worker import Worker, WorkerDied

MODULE = """
import os, pickle, signal, struct, sys, time
while head := sys.stdin.buffer.read(4):
    task = pickle.loads(sys.stdin.buffer.read(struct.unpack(">I", head)[0]))
    if task == "die":
        os.kill(os.getpid(), signal.SIGTERM)
    if task == "leave":
        sys.exit(3)
    if task == "sleep":
        time.sleep(600)
    for answer in [*range(task[0]), ("end", os.getpid(), os.getppid() == int(sys.argv[1]))]:
        data = pickle.dumps(answer)
        sys.stdout.buffer.write(struct.pack(">I", len(data)) + data)
        sys.stdout.buffer.flush()
"""


class Received:
    """The result of one task."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.ended = asyncio.Event()

    def __call__(self, answer: Any) -> None:
        self.answers.append(answer)
        if isinstance(answer, tuple | WorkerDied):
            self.ended.set()


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Callable[[Worker], Any]) -> None:
    """Run a script with a worker, which is stopped and gone after it."""
    (tmp_path / "worked_on.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    async def run() -> None:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        worker = Worker(scheduler, "worked_on", lambda answer: isinstance(answer, tuple))
        try:
            async with asyncio.timeout(60):
                await script(worker)
        finally:
            worker.stop()
            scheduler.submit_blocking(worker.join, lambda _result, _error: None)
            await scheduler.close()

    asyncio.run(run())


async def ask(worker: Worker, task: object) -> list[Any]:
    notified = Received()
    worker.ask(task, notified)
    await notified.ended.wait()
    return notified.answers


def test_one_worker_process_answers_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(worker: Worker) -> None:
        first, second = await ask(worker, (2,)), await ask(worker, (0,))
        assert first[:2] == [0, 1]
        assert first[2] == second[0]
        assert first[2][1] != os.getpid()
        assert first[2][2]

    play(tmp_path, monkeypatch, script)


@pytest.mark.parametrize(("task", "how"), [("die", "signal 15"), ("leave", "code 3")])
def test_a_death_ends_the_task_that_it_met_and_the_next_one_has_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, how: str
) -> None:
    async def script(worker: Worker) -> None:
        (death,) = await ask(worker, task)
        assert str(death) == f"its process ended with {how}"
        assert (await ask(worker, (0,)))[0][0] == "end"

    play(tmp_path, monkeypatch, script)


def test_a_worker_is_stopped_in_the_middle_of_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(worker: Worker) -> None:
        notified = Received()
        await ask(worker, (0,))
        worker.ask("sleep", notified)
        await asyncio.sleep(0.05)
        worker.stop()
        await notified.ended.wait()
        assert str(notified.answers[0]) == "its process ended with signal 9"

    play(tmp_path, monkeypatch, script)


def test_a_module_that_does_not_exist_is_a_death_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(worker: Worker) -> None:
        worker._module = "no_such_module"
        (death,) = await ask(worker, (0,))
        assert isinstance(death, WorkerDied)

    play(tmp_path, monkeypatch, script)
