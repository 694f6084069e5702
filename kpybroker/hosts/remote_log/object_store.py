"""A store of objects: bytes under keys. Layouts (`chunked_storage`, `local_tiered_storage`) are built on it.

Every call blocks, has a deadline of its own, and may run in any thread. Errors are `StoreAway`, `StoreRefuses` and
`ObjectMissing`, each one line with the store, the key and the reason; other errors of an implementation do not pass.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from kpybroker.hosts.remote_log.remote_storage import StoreRefuses
from kpywire.varint import Buffer


class StoredObject(NamedTuple):
    """An object of a listing."""

    key: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects under keys with slashes. An object is written as a whole or not at all."""

    name: str
    """The store in messages, such as ``s3://bucket``."""

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        """Write an object, or write over it. An exception of ``parts`` passes, and nothing is left of the object."""

    def get(self, key: str, most_bytes: int) -> Buffer:
        """All bytes of an object. StoreRefuses if it has more than ``most_bytes``."""

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        """Bytes ``start`` to ``end`` of an object; fewer where it ends before, none where it ends before
        ``start``."""

    def size(self, key: str) -> int:
        """The bytes of an object."""

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with ``prefix``, in no particular order."""

    def delete(self, keys: list[str]) -> None:
        """Delete objects. Those that are not there are no failure."""

    def close(self) -> None:
        """End threads and connections."""


def check(store: ObjectStore, key: str) -> None:
    """Write, read, list and delete a small object. StoreRefuses names the first step that the store does not do right,
    StoreAway if it does not answer."""
    written = key.encode()
    store.put(key, [written])
    if bytes(store.get_range(key, 1, len(written))) != written[1:] or store.size(key) != len(written):
        raise StoreRefuses(f"{store.name} does not return the bytes that were written to {key}")
    if all(each.key != key for each in store.listed(key.rpartition("/")[0] + "/" if "/" in key else "")):
        raise StoreRefuses(f"{store.name} does not list {key}, which was written")
    store.delete([key])
