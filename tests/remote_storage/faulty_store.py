"""A store in memory that counts requests, and fails, waits, tears uploads or lists stale when a test asks for it."""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.remote_storage import StoreAway
from kpywire.varint import Buffer


class FaultyStore(MemoryStore):
    """``requests`` are (action, key); ``before`` is called with each before it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], object] = lambda _action, _key: None
        self.tears_uploads = False
        self.listing: list[StoredObject] | None = None
        self.largest_part = 0
        self._lock = Lock()

    def fail(self, action: str, suffix: str = "", error: Exception | None = None, times: int = 1) -> None:
        """Fail the next requests of an action on keys with a suffix."""
        left = [times]

        def failing(asked: str, key: str) -> None:
            if asked == action and key.endswith(suffix) and left[0]:
                left[0] -= 1
                raise error or StoreAway(f"memory:: cannot {action} {key}: it is away")

        self.before = failing

    def count(self, action: str, suffix: str = "") -> int:
        return sum(1 for done, key in self.requests if done == action and key.endswith(suffix))

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        self._note("put", key)
        held = []
        for part in parts:
            self.largest_part = max(self.largest_part, len(part))
            held.append(bytes(part))
        whole = b"".join(held)
        self.objects[key] = whole[: len(whole) // 2] if self.tears_uploads else whole

    def get(self, key: str, most_bytes: int) -> Buffer:
        self._note("get", key)
        return super().get(key, most_bytes)

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        self._note("get_range", key)
        return super().get_range(key, start, end)

    def size(self, key: str) -> int:
        self._note("size", key)
        return super().size(key)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        self._note("list", prefix)
        return super().listed(prefix) if self.listing is None else iter(self.listing)

    def delete(self, keys: list[str]) -> None:
        for key in keys:
            self._note("delete", key)
            super().delete([key])

    def _note(self, action: str, key: str) -> None:
        with self._lock:
            self.requests.append((action, key))
        self.before(action, key)
