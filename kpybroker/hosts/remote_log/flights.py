"""Work that several threads want at the same time and that one of them does: reads of the same chunk, of a manifest.

Invariant: a key that was claimed is settled or failed by its claimer, so no waiter is left behind.
"""

from collections.abc import Hashable, Iterable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Flights(Generic[Key, Value]):
    """The keys that are being worked on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._flights: dict[Key, Future[Value]] = {}

    def claim(self, keys: Iterable[Key]) -> tuple[list[Key], dict[Key, "Future[Value]"]]:
        """The keys that are the caller's now, and those of other threads with their results to come."""
        mine, others = [], {}
        with self._lock:
            for key in keys:
                if key in self._flights:
                    others[key] = self._flights[key]
                else:
                    self._flights[key] = Future()
                    mine.append(key)
        return mine, others

    def is_claimed(self, key: Key) -> bool:
        return key in self._flights

    def settle(self, key: Key, value: Value) -> None:
        """Give the value to those that wait. Whatever the claimer keeps of it has to be kept before."""
        with self._lock:
            flight = self._flights.pop(key)
        flight.set_result(value)

    def fail(self, keys: Iterable[Key], error: Exception) -> None:
        """Give the error to those that wait for keys that are not settled."""
        with self._lock:
            flights = [self._flights.pop(key) for key in keys if key in self._flights]
        for flight in flights:
            flight.set_exception(error)
