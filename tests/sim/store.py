"""The store of tiered storage that all nodes of a simulation share, and the way of one process to it.

It is slow, and it fails: a request may have no effect, or have one that its sender never hears of, even after the
sender's death; a write may arrive long after it was said to have failed, or be torn: then an object has the beginning
of its bytes. A listing may be old. For a while it may refuse everything, as it does after credentials have expired.

The layout is the production's (`kpybroker.hosts.remote_log.chunked_storage`). Its caches are left out: their locks
would stop the one thread of a simulation.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.remote_log.chunk_cache import ChunkCache
from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm, ChunkedStorage
from kpybroker.hosts.remote_log.disk_chunks import ChunkName
from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.open_segments import OpenSegments
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpybroker.hosts.remote_log.remote_storage import (
    ClosedSegmentFiles,
    CopyLimits,
    ObjectMissing,
    StoreAway,
    StoreRefuses,
)
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.remote.indexes import IndexType
from kpywire.varint import Buffer

if TYPE_CHECKING:
    from .world import World

PREFIX = "sim/"
CHUNK_BYTES = 500
STALE_MS = 1_000.0
"""The most that a listing may be older than it is said to be."""


class StoreConditions(NamedTuple):
    """How the store is at present. Shares are of requests."""

    latency_ms: float = 0.5
    slow: float = 0.0
    """The share that takes seconds."""
    fails: float = 0.0
    """The share that fails."""
    strays: float = 0.0
    """The share of failed writes and deletions that have their effect later all the same."""
    torn: float = 0.0
    """The share of failed writes that leave the beginning of an object."""
    stale: float = 0.0
    """The share of listings that are old."""
    refuses: str = ""
    """The reason why it refuses every request; empty if it does not."""


class SimulatedStore:
    """The objects, and what becomes of requests."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.rng = world.stream("store")
        self.conditions = StoreConditions()
        self.objects: dict[str, bytes] = {}
        self.writes: Callable[[str], object] = lambda _key: None
        """Called with the key of each object before it is on its way."""
        self.deletes: Callable[[str], object] = lambda _key: None
        """Called with the key of each object before it is deleted."""
        self._listings: list[tuple[float, dict[str, int]]] = []

    def begin(self) -> None:
        """Draw how bad it is from now on."""
        rng = self.rng
        self.conditions = StoreConditions(
            latency_ms=rng.choice((0.5, 5.0, 40.0)),
            slow=rng.choice((0.0, 0.02, 0.1)),
            fails=rng.choice((0.0, 0.05, 0.2)),
            strays=rng.choice((0.0, 0.3, 0.8)),
            torn=rng.choice((0.0, 0.5)),
            stale=rng.choice((0.0, 0.5)),
            refuses=rng.choice(("", "", "", "", "", "ExpiredToken")),
        )
        self.world.tell(f"{self.conditions}")

    def heal(self) -> None:
        """It fails no more."""
        self.conditions = StoreConditions()

    def delay_ms(self) -> float:
        """The time for one way of a request."""
        if self.rng.random() < self.conditions.slow:
            return self.rng.choice((300.0, 1_000.0, 3_000.0))
        return self.rng.random() * self.conditions.latency_ms

    def put(self, key: str, data: bytes) -> None:
        """A write arrives."""
        self._remember()
        self.objects[key] = data
        self.world.note(data, f"{key} is in the store,")

    def tear(self, key: str, data: bytes) -> None:
        """The beginning of a write arrives; a whole object stays as it is."""
        if key not in self.objects:
            self.put(key, data)

    def delete(self, keys: list[str]) -> None:
        """A deletion arrives."""
        self._remember()
        for key in keys:
            if key in self.objects:
                self.deletes(key)
                del self.objects[key]
                self.world.note(key.encode(), f"{key} is deleted,")

    def sizes(self) -> dict[str, int]:
        """A listing, which may be old."""
        if self._listings and self.rng.random() < self.conditions.stale:
            return self.rng.choice(self._listings)[1]
        return {key: len(data) for key, data in self.objects.items()}

    def _remember(self) -> None:
        now_ms = self.world.now_ms
        self._listings = [each for each in self._listings if now_ms - each[0] <= STALE_MS]
        self._listings.append((now_ms, {key: len(data) for key, data in self.objects.items()}))


class StoreLine:
    """The way of one process to the store: `ObjectStore` for threads that wait in simulated time."""

    name = "sim:"

    def __init__(self, store: SimulatedStore, scheduler: Any) -> None:
        self._store = store
        self._scheduler = scheduler

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        data = b"".join(parts)
        torn = data[: self._store.rng.randrange(len(data) + 1)]
        self._store.writes(key)
        what = f"cannot write {key}"
        self._change(lambda: self._store.put(key, data), what, lambda: self._store.tear(key, torn))

    def get(self, key: str, most_bytes: int) -> Buffer:  # noqa: ARG002
        return self._read(key)

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return memoryview(self._read(key))[start:end]

    def size(self, key: str) -> int:
        return len(self._read(key))

    def listed(self, prefix: str) -> Iterator[StoredObject]:  # noqa: ARG002
        self._go()
        found = self._store.sizes()
        self._come(fails=self._fails(), what="cannot list")
        return iter([StoredObject(*each) for each in found.items()])

    def delete(self, keys: list[str]) -> None:
        self._change(lambda: self._store.delete(keys), f"cannot delete {keys}")

    def close(self) -> None: ...

    def _read(self, key: str) -> bytes:
        self._go()
        found = self._store.objects.get(key)
        self._come(fails=self._fails(), what=f"cannot read {key}")
        if found is None:
            raise ObjectMissing(f"{self.name} there is no {key}")
        return found

    def _change(self, effect: Callable[[], None], what: str, torn: Callable[[], None] | None = None) -> None:
        """Send a change: it has its effect in the store whether or not the sender lives; ``torn`` is half of it."""
        store, fails = self._store, self._fails()
        way_ms = store.delay_ms()
        is_stray = fails and store.rng.random() < store.conditions.strays
        if not fails or is_stray:
            store.world.later(way_ms * (store.rng.choice((1.0, 3.0, 10.0)) if is_stray else 1.0), effect)
        elif torn is not None and store.rng.random() < store.conditions.torn:
            store.world.later(way_ms, torn)
        self._wait(way_ms)
        self._come(fails=fails, what=what)

    def _fails(self) -> bool:
        if self._store.conditions.refuses:
            return True
        return self._store.rng.random() < self._store.conditions.fails

    def _go(self) -> None:
        self._wait(self._store.delay_ms())

    def _come(self, *, fails: bool, what: str) -> None:
        self._wait(self._store.delay_ms())
        if fails and self._store.conditions.refuses:
            raise StoreRefuses(f"{self.name} {what}: {self._store.conditions.refuses}")
        if fails:
            raise StoreAway(f"{self.name} {what}: it is away")

    def _wait(self, duration_ms: float) -> None:
        self._scheduler.wait_for_store(duration_ms + 0.001)


class SimulatedStorage:
    """`RemoteStorage` in the simulated store, for one process."""

    name = "sim:"

    def __init__(self, store: SimulatedStore, scheduler: Any) -> None:
        self._line = StoreLine(store, scheduler)

    def _chunked(self) -> ChunkedStorage:
        """The production's, without anything that an earlier call left."""
        memory: RecentBytes[ChunkName] = RecentBytes(0, -1, lambda: 0)
        segments = OpenSegments(self._line, PREFIX, None, 1)
        return ChunkedStorage(self._line, ChunkedForm(PREFIX, CHUNK_BYTES), ChunkCache(memory, None, 0), segments, None)

    def check(self) -> None: ...

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        return self._chunked().copy(segment, files, limits)

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        return self._chunked().read(segment, start, end)

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        return self._chunked().index(segment, index)

    def delete(self, segment: RemoteLogSegment) -> None:
        self._chunked().delete(segment)

    def listed(self) -> Iterator[ListedObject]:
        return self._chunked().listed()

    def delete_objects(self, objects: Iterable[ListedObject]) -> None:
        self._chunked().delete_objects(objects)

    def close(self) -> None: ...
