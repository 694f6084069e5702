"""The scheduler that tests and simulations drive by hand behaves like the real one."""

import asyncio

import pytest

from kpybroker.io.scheduler import LoopScheduler, ManualScheduler


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


def test_monotonic_time_starts_with_the_scheduler() -> None:
    scheduler = ManualScheduler()
    scheduler.advance(250)
    assert scheduler.monotonic_ms() == pytest.approx(250)
