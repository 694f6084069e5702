"""Looks at a source come one at a time, until they are stopped."""

import asyncio
from collections.abc import Callable, Coroutine

from kpybroker.hosts.mirror.recurring_looks import RecurringLooks
from kpybroker.testing.clock import ControlledScheduler


class Watched:
    """Looks that are counted."""

    def __init__(self, scheduler: ControlledScheduler) -> None:
        self.scheduler = scheduler
        self.looks = 0
        self.looking = RecurringLooks(scheduler, self.look)

    def look(self) -> None:
        self.looks += 1


def played(story: Callable[[Watched], Coroutine[None, None, None]]) -> Callable[[], None]:
    """A test that plays a story in a loop of its own."""

    async def play() -> None:
        scheduler = ControlledScheduler(asyncio.get_running_loop())
        await story(Watched(scheduler))
        await scheduler.close()

    return lambda: asyncio.run(play())


@played
async def test_a_look_comes_when_the_one_before_is_over_and_the_pause_too(watched: Watched) -> None:
    watched.looking.begin()
    watched.looking.begin()
    await watched.scheduler.advance(10_000)
    assert watched.looks == 1
    watched.looking.over(1_000)
    watched.looking.begin()
    await watched.scheduler.advance(900)
    assert watched.looks == 1
    await watched.scheduler.advance(200)
    assert watched.looks == 2


@played
async def test_none_comes_after_the_end_until_it_begins_again(watched: Watched) -> None:
    watched.looking.begin()
    watched.looking.stop()
    watched.looking.over(1_000)
    await watched.scheduler.advance(10_000)
    assert watched.looks == 1
    watched.looking.begin()
    assert watched.looks == 2
    watched.looking.over(1_000)
    watched.looking.stop()
    await watched.scheduler.advance(10_000)
    assert watched.looks == 2


@played
async def test_looks_that_begin_again_during_one_go_on_after_it(watched: Watched) -> None:
    watched.looking.begin()
    watched.looking.stop()
    watched.looking.begin()
    assert watched.looks == 1, "one at a time"
    watched.looking.over(1_000)
    await watched.scheduler.advance(1_100)
    assert watched.looks == 2


@played
async def test_a_long_pause_is_cut_short_in_a_hurry(watched: Watched) -> None:
    watched.looking.begin()
    watched.looking.hurry(50)
    assert watched.looks == 1, "a look is under way"
    watched.looking.over(50)
    watched.looking.hurry(50)
    assert watched.looks == 1
    await watched.scheduler.advance(60)
    watched.looking.over(500)
    watched.looking.hurry(50)
    assert watched.looks == 3
    await watched.scheduler.advance(10_000)
    assert watched.looks == 3
