"""Clients that die at a call, and clients that take turns: a job and its zombies in every order, without waiting."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kpybroker.client.client import Client, ClientSettings

SETTINGS = ClientSettings(api_timeout_s=5.0, backoff_s=0.001, backoff_max_s=0.005, expects_cluster=True)


class Killed(BaseException):
    """The process of a client is dead: no code of it runs any more."""


class Mortal(Client):
    """A client that dies at a call: before the broker hears of it, or before the answer comes."""

    def __init__(self, like: Client, last_call: int, *, is_served: bool) -> None:
        """A client of the same cluster."""
        super().__init__(",".join(f"{host}:{port}" for host, port in like.servers), like.timeout_s, like.settings)
        self.calls = 0
        self.is_dead = False
        self._last_call = last_call
        self._is_served = is_served

    def _call(self, address: tuple[str, int], request: Any, wait_s: float, newest: int | None) -> Any:
        self.calls += 1
        if self.is_dead or (self.calls == self._last_call and not self._is_served):
            self.is_dead = True
            raise Killed
        answer = super()._call(address, request, wait_s, newest)
        if self.calls == self._last_call:
            self.is_dead = True
            raise Killed
        return answer


class Turns:
    """Actors that run one at a time, from call to call, in the order of a schedule; then each to its end."""

    def __init__(self, schedule: Sequence[int]) -> None:
        self._schedule = schedule
        self._gates: list[threading.Semaphore] = []
        self._turn_over = threading.Semaphore(0)
        self._is_alive: list[bool] = []

    def client(self, actor: int, servers: str) -> Client:
        """The client of an actor."""
        return _Waiting(self, actor, servers)

    def wait(self, actor: int) -> None:
        """End the turn of an actor and wait for its next one."""
        self._turn_over.release()
        self._gates[actor].acquire()

    def run(self, actors: Sequence[Callable[[], object]]) -> list[BaseException | None]:
        """Run all. Return the error of each."""
        errors: list[BaseException | None] = [None] * len(actors)
        self._gates = [threading.Semaphore(0) for _ in actors]
        self._is_alive = [True] * len(actors)

        def act(number: int) -> None:
            self._gates[number].acquire()
            try:
                actors[number]()
            except Exception as error:
                errors[number] = error
            self._is_alive[number] = False
            self._turn_over.release()

        threads = [threading.Thread(target=act, args=(number,), daemon=True) for number in range(len(actors))]
        for thread in threads:
            thread.start()
        for number in self._order(len(actors)):
            if self._is_alive[number]:
                self._gates[number].release()
                assert self._turn_over.acquire(timeout=60)
        for thread in threads:
            thread.join(60)
        return errors

    def _order(self, actors: int) -> Iterator[int]:
        yield from (number % actors for number in self._schedule)
        while any(self._is_alive):
            yield from range(actors)


class _Waiting(Client):
    def __init__(self, turns: Turns, actor: int, servers: str) -> None:
        super().__init__(servers, 5.0, SETTINGS)
        self._turns = turns
        self._actor = actor

    def _call(self, address: tuple[str, int], request: Any, wait_s: float, newest: int | None) -> Any:
        self._turns.wait(self._actor)
        return super()._call(address, request, wait_s, newest)
