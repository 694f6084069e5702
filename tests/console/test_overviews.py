"""Overviews of groups are kept by viewer, and a viewer waits for its own alone."""

import asyncio
from typing import Any

import pytest

from kpybroker.monitoring.console import overviews as module
from kpybroker.monitoring.console.overviews import KEPT_MS, MOST_VIEWERS, Overview, Overviews
from kpybroker.monitoring.metrics.readers import Readers
from kpybroker.runtime.io.scheduler import ManualScheduler


def test_a_viewer_does_not_wait_for_the_overview_of_another() -> None:
    async def story() -> None:
        history: Any = None
        overviews = Overviews(ManualScheduler(), history)
        readers: Any = Readers.__new__(Readers)
        has_begun, may_go_on, times = asyncio.Event(), asyncio.Event(), 0

        async def slow() -> Overview:
            nonlocal times
            times += 1
            has_begun.set()
            await may_go_on.wait()
            return Overview((), {}, (), (), readers, set())

        async def quick() -> Overview:
            return Overview((), {}, ("quick",), (), readers, set())

        waiting = [asyncio.ensure_future(overviews.of("ann", slow)) for _ in range(2)]
        async with asyncio.timeout(10):
            await has_begun.wait()
            assert (await overviews.of("bob", quick)).unreachable == ("quick",)
            assert times == 1, "that of one viewer is made once at a time"
            may_go_on.set()
            await asyncio.gather(*waiting)
        assert not overviews._turns

    asyncio.run(story())


def test_times_of_other_nodes_are_kept_by_viewer_and_for_a_while() -> None:
    scheduler, history = ManualScheduler(), None
    overviews = Overviews(scheduler, history)  # type: ignore[arg-type]
    key = bytes(16), 0, 7
    overviews.fetched_times("ann")[key] = 5
    assert overviews.fetched_times("bob") == {}
    scheduler.advance(KEPT_MS - 1)
    assert overviews.fetched_times("ann") == {key: 5}
    scheduler.advance(1)
    assert overviews.fetched_times("ann") == {}


def test_times_of_other_nodes_are_kept_for_few_viewers_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TIMES", 2)
    overviews = Overviews(ManualScheduler(), None)  # type: ignore[arg-type]
    viewers = [f"viewer {number}" for number in range(MOST_VIEWERS + 1)]
    for each in viewers:
        overviews.fetched_times(each)[bytes(16), 0, 0] = 5
    assert [len(overviews.fetched_times(each)) for each in (viewers[-1], viewers[0])] == [1, 0]
    known = overviews.fetched_times(viewers[-1])
    known.update({(bytes(16), 0, offset): 5 for offset in range(3)})
    assert overviews.fetched_times(viewers[-1]) == {}
