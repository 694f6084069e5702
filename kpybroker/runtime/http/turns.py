"""Turns at something that one request does at a time, such as the computation of a password.

The request that came last is the next one: a client that sends many of them waits behind itself, and a single one does
not wait behind all of these. Of those that wait, the oldest is refused when there are too many.
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final

from kpybroker.runtime.http.request import HttpRefused

REFUSAL_DELAY_S: Final = 0.5


class Turns:
    """The turns, one after the other."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False

    async def take(self) -> None:
        """Wait for a turn. Raises Refused, with a delay, if it does not come."""
        if not self._is_taken:
            self._is_taken = True
            return
        if len(self._waiting) >= self._most_waiting:
            line = "too many logins at once; try again in a second"
            refusal = HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, line, delay_s=REFUSAL_DELAY_S)
            oldest = self._waiting.popleft()
            if not oldest.done():
                oldest.set_exception(refusal)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()
            raise

    def give(self) -> None:
        """End a turn, and begin the next one."""
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False

    def give_after(self, delay_s: float) -> None:
        """End a turn after a rest."""
        asyncio.get_running_loop().call_later(delay_s, self.give)
