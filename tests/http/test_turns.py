"""Turns at the computation of a password: a single login does not wait behind a crowd of others."""

import asyncio

import pytest

from kpybroker.runtime.http.request import HttpRefused
from kpybroker.runtime.http.turns import Turns


def test_the_last_one_that_came_is_the_next() -> None:
    async def run() -> list[str]:
        turns, order = Turns(10), list[str]()

        async def take(name: str) -> None:
            await turns.take()
            order.append(name)
            turns.give()

        await turns.take()
        waiting = []
        for number in range(5):
            waiting.append(asyncio.create_task(take(str(number))))
            await asyncio.sleep(0)
        turns.give()
        await asyncio.gather(*waiting)
        return order

    assert asyncio.run(run()) == ["4", "3", "2", "1", "0"]


def test_with_too_many_waiting_the_longest_waiting_one_is_refused() -> None:
    async def run() -> None:
        turns = Turns(2)
        await turns.take()
        waiting = []
        for _ in range(3):
            waiting.append(asyncio.create_task(turns.take()))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(HttpRefused) as refused:
            await waiting[0]
        assert refused.value.delay_s > 0
        turns.give()
        await waiting[2]
        turns.give()
        await waiting[1]

    asyncio.run(run())


def test_a_turn_of_a_request_that_has_gone_goes_on_to_the_next() -> None:
    async def run() -> None:
        turns = Turns(3)
        await turns.take()
        first, second = asyncio.create_task(turns.take()), asyncio.create_task(turns.take())
        await asyncio.sleep(0)
        turns.give()
        second.cancel()  # it has got the turn, and does not know yet
        await first
        third = asyncio.create_task(turns.take())
        await asyncio.sleep(0)
        third.cancel()
        await asyncio.gather(second, third, return_exceptions=True)
        turns.give()
        await turns.take()

    asyncio.run(run())
