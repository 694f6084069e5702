"""The scheduler that tests and simulations drive by hand behaves like the real one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from kpybroker.runtime.io import scheduler as scheduler_module
from kpybroker.runtime.io.scheduler import (
    FLUSH_THREADS,
    PIECE_NS,
    UPKEEP_THREADS,
    WAITING_THREADS,
    LoopScheduler,
    ManualScheduler,
    Pieces,
)


def test_timers_fire_in_their_order_and_not_after_being_cancelled() -> None:
    scheduler = ManualScheduler(now_ms=1000)
    fired: list[tuple[str, int]] = []
    scheduler.call_later(20, lambda: fired.append(("b", scheduler.now_ms())))
    scheduler.call_later(10, lambda: fired.append(("a", scheduler.now_ms())))
    scheduler.call_later(15, lambda: fired.append(("never", 0))).cancel()
    scheduler.advance(9)
    assert fired == []
    scheduler.advance(11)
    assert fired == [("a", 1010), ("b", 1020)]
    assert scheduler.now_ms() == 1020


def test_blocking_work_reports_results_and_errors() -> None:
    scheduler = ManualScheduler()
    seen: list[object] = []
    scheduler.submit_blocking(lambda: 5, lambda result, error: seen.append((result, error)))
    scheduler.submit_blocking(lambda: 1 // 0, lambda result, error: seen.append((result, type(error))))
    assert seen == []
    scheduler.run()
    assert seen == [(5, None), (None, ZeroDivisionError)]


def test_the_real_scheduler_runs_blocking_work_beside_the_loop() -> None:
    async def main() -> list[object]:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        done: asyncio.Queue[object] = asyncio.Queue()
        scheduler.submit_blocking(lambda: 5, lambda result, _: done.put_nowait(result))
        scheduler.submit_blocking(lambda: 1 // 0, lambda _, error: done.put_nowait(type(error)))
        seen = [await done.get(), await done.get()]
        await scheduler.close()
        return seen

    seen = asyncio.run(main())
    assert sorted(seen, key=str) == sorted([5, ZeroDivisionError], key=str)


def test_urgent_callbacks_do_not_wait_behind_others() -> None:
    async def main() -> object:
        scheduler = LoopScheduler(asyncio.get_running_loop(), threads=1)
        held, done = threading.Event(), asyncio.Queue[object]()
        scheduler.submit_blocking(lambda: held.wait(10), lambda result, _: done.put_nowait(result))
        scheduler.submit_urgent(lambda: "urgent", lambda result, _: done.put_nowait(result))
        first = await done.get()
        held.set()
        await scheduler.close()
        return first

    assert asyncio.run(main()) == "urgent"


def test_work_that_waits_for_other_machines_delays_no_other_work() -> None:
    async def main() -> list[str]:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        answered, done = threading.Event(), asyncio.Queue[str]()
        for _ in range(2 * WAITING_THREADS):
            scheduler.submit_waiting(answered.wait, lambda *_: done.put_nowait("waited"))
        scheduler.submit_blocking(lambda: "file", lambda *_: done.put_nowait("file"))
        scheduler.submit_urgent(lambda: "urgent", lambda *_: done.put_nowait("urgent"))
        first = sorted([await done.get(), await done.get()])
        answered.set()
        await scheduler.close()
        return first

    assert asyncio.run(main()) == ["file", "urgent"]


def test_flushes_of_logs_delay_no_other_work() -> None:
    async def main() -> list[str]:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        flushed, done = threading.Event(), asyncio.Queue[str]()
        for _ in range(2 * FLUSH_THREADS):
            scheduler.submit_flush(flushed.wait, lambda *_: done.put_nowait("flushed"))
        scheduler.submit_blocking(lambda: "file", lambda *_: done.put_nowait("file"))
        scheduler.submit_waiting(lambda: "machine", lambda *_: done.put_nowait("machine"))
        first = sorted([await done.get(), await done.get()])
        flushed.set()
        await scheduler.close()
        return first

    assert asyncio.run(main()) == ["file", "machine"]


def test_checkpoints_and_removals_do_not_queue_behind_reads_and_delay_none() -> None:
    async def main() -> list[str]:
        scheduler = LoopScheduler(asyncio.get_running_loop(), threads=1)
        held, done = threading.Event(), asyncio.Queue[str]()
        scheduler.submit_blocking(held.wait, lambda *_: done.put_nowait("read"))
        scheduler.submit_upkeep(lambda: "checkpoint", lambda *_: done.put_nowait("checkpoint"))
        first = await done.get()
        for _ in range(UPKEEP_THREADS):
            scheduler.submit_upkeep(held.wait, lambda *_: done.put_nowait("removal"))
        scheduler.submit_urgent(lambda: "urgent", lambda *_: done.put_nowait("urgent"))
        second = await done.get()
        held.set()
        await scheduler.close()
        return [first, second]

    assert asyncio.run(main()) == ["checkpoint", "urgent"]


def test_a_stop_leaves_calls_of_a_further_pool_that_hang(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler_module, "LEFT_AFTER_S", 0.05)
    released, ended = threading.Event(), threading.Event()

    async def main() -> list[object]:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        done: list[object] = []
        submit = scheduler.pool("store", 1)
        submit(lambda: "quick", lambda result, _: done.append(result))
        submit(lambda: (released.wait(60), ended.set()), lambda *_: done.append("hung"))
        submit(lambda: "never begun", lambda result, _: done.append(result))
        await scheduler.close()
        return done

    assert asyncio.run(main()) == ["quick"]
    assert not ended.is_set()
    assert "2 calls to the store have not ended" in caplog.text
    released.set()
    assert ended.wait(60)


def test_a_stop_waits_for_calls_of_a_further_pool_that_end_soon() -> None:
    async def main() -> list[object]:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        done: list[object] = []
        held = threading.Event()
        submit = scheduler.pool("store", 2)
        submit(lambda: held.wait(60), lambda result, _: done.append(result))
        threading.Timer(0.1, held.set).start()
        await scheduler.close()
        return done

    assert asyncio.run(main()) == [True]


def test_monotonic_time_starts_with_the_scheduler() -> None:
    scheduler = ManualScheduler()
    scheduler.advance(250)
    assert scheduler.monotonic_ms() == pytest.approx(250)


def test_long_work_is_done_a_piece_a_turn_and_in_turns() -> None:
    scheduler = ManualScheduler()
    done: list[str] = []
    clock = [0]

    def work(name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            done.append(name)
            clock[0] += PIECE_NS // 2
            yield

    pieces = Pieces(scheduler.call_soon, lambda: clock[0])
    pieces.begin(work("a", 5))
    pieces.begin(work("b", 3))
    assert done == ["a", "a", "b", "b"], "a piece of each at once"
    scheduler.run()
    assert done == ["a", "a", "b", "b", "a", "a", "b", "a"]


def test_pieces_go_by_the_turns_that_somebody_else_shares_out() -> None:
    scheduler = ManualScheduler()
    clock, done = [0], []
    turns: list[Callable[[], object]] = []
    pieces = Pieces(scheduler.call_soon, lambda: clock[0])
    pieces.share_turns(turns.append, lambda: 2)

    def work() -> Iterator[None]:
        for number in range(6):
            done.append(number)
            clock[0] += 1
            yield

    pieces.begin(work())
    scheduler.run()
    for so_far in (2, 4, 6):
        assert len(done) == so_far
        turns.pop()()
    assert not turns


def test_work_started_by_a_piece_waits_for_its_own_turn() -> None:
    """Or one turn would do a piece of everything that follows from a change."""
    scheduler = ManualScheduler()
    done: list[str] = []
    pieces = Pieces(scheduler.call_soon, lambda: 0)

    def outer() -> Iterator[None]:
        for name in ("b", "c"):
            pieces.begin(done.append(each) for each in name)
            done.append("a")
            yield

    pieces.begin(outer())
    assert done == ["a", "a"]
    scheduler.run()
    assert done == ["a", "a", "b", "c"]


def test_work_that_fails_ends_and_the_others_go_on() -> None:
    scheduler = ManualScheduler()
    done: list[int] = []
    now_ns = count(step=PIECE_NS)
    pieces = Pieces(scheduler.call_soon, lambda: next(now_ns))

    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("by the test")

    pieces.begin(failing())
    pieces.begin(done.append(number) for number in range(4))
    with pytest.raises(RuntimeError):
        scheduler.run()
    scheduler.run()
    assert done == [0, 1, 2, 3]


def test_stopped_pieces_do_no_more() -> None:
    scheduler = ManualScheduler()
    done: list[int] = []
    now_ns = count(step=PIECE_NS)
    pieces = Pieces(scheduler.call_soon, lambda: next(now_ns))
    pieces.begin(done.append(number) for number in range(4))
    pieces.stop()
    scheduler.run()
    assert done == [0]
