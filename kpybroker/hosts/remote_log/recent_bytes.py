"""Bytes in memory by their keys, the least recently used first out: chunks and indexes of remote segments.

Invariant: they have at most ``most_bytes``, or there is one entry.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from kpywire.varint import Buffer

Key = TypeVar("Key", bound=Hashable)


class RecentBytes(Generic[Key]):
    """An entry that was not used for ``retention_ms`` leaves with the next one that comes; -1 for never."""

    def __init__(self, most_bytes: int, retention_ms: int, now_ms: Callable[[], int]) -> None:
        self._most_bytes = most_bytes
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._lock = Lock()
        self._held: OrderedDict[Key, tuple[Buffer, int]] = OrderedDict()
        self.bytes = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def get(self, key: Key) -> Buffer | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held[key] = found[0], self._now_ms()
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Key, data: Buffer) -> None:
        now_ms = self._now_ms()
        with self._lock:
            self._remove(key)
            self._held[key] = data, now_ms
            self.bytes += len(data)
            while len(self._held) > 1:
                oldest, (_, used_ms) = next(iter(self._held.items()))
                is_old = 0 <= self._retention_ms < now_ms - used_ms
                if self.bytes <= self._most_bytes and not is_old:
                    break
                self._remove(oldest)

    def remove(self, keys: Iterable[Key]) -> None:
        with self._lock:
            for key in keys:
                self._remove(key)

    def remove_where(self, is_doomed: Callable[[Key], bool]) -> None:
        with self._lock:
            for key in [each for each in self._held if is_doomed(each)]:
                self._remove(key)

    def _remove(self, key: Key) -> None:
        removed = self._held.pop(key, None)
        if removed is not None:
            self.bytes -= len(removed[0])
