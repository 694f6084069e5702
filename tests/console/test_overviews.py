"""Overviews of groups are kept by viewer, and a viewer waits for its own alone."""

import asyncio
from typing import Any

from kpybroker.monitoring.console.overviews import Overview, Overviews
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
            return Overview((), {}, (), readers, set())

        async def quick() -> Overview:
            return Overview((), {}, ("quick",), readers, set())

        waiting = [asyncio.ensure_future(overviews.of("ann", slow)) for _ in range(2)]
        async with asyncio.timeout(10):
            await has_begun.wait()
            assert (await overviews.of("bob", quick)).unreachable == ("quick",)
            assert times == 1, "that of one viewer is made once at a time"
            may_go_on.set()
            await asyncio.gather(*waiting)
        assert not overviews._turns

    asyncio.run(story())
