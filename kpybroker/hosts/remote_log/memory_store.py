"""A store in the memory of the process, for tests: what it holds ends with it."""

from collections.abc import Iterable, Iterator

from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, StoreRefuses
from kpywire.varint import Buffer


class MemoryStore:
    """Objects as bytes. A dictionary's single steps need no lock."""

    name = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        self.objects[key] = b"".join(parts)

    def get(self, key: str, most_bytes: int) -> Buffer:
        found = self._object(key)
        if len(found) > most_bytes:
            raise StoreRefuses(f"{self.name}: {key} has more than {most_bytes} bytes")
        return found

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return memoryview(self._object(key))[start:end]

    def size(self, key: str) -> int:
        return len(self._object(key))

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        return iter(
            [StoredObject(key, len(held)) for key, held in list(self.objects.items()) if key.startswith(prefix)]
        )

    def delete(self, keys: list[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def close(self) -> None:
        """Nothing has to end."""

    def _object(self, key: str) -> bytes:
        found = self.objects.get(key)
        if found is None:
            raise ObjectMissing(f"{self.name}: there is no {key}")
        return found
