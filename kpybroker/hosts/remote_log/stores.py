"""The store of tiered storage, made from a broker's config."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import urandom
from time import monotonic_ns

from kpybroker.config import remote_storage
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.remote_storage import (
    AzurePlace,
    ChunkCacheSettings,
    ChunkedSettings,
    DirectoryPlace,
    EncryptionSettings,
    GcsPlace,
    LocalTieredSettings,
    MemoryPlace,
    Place,
    RemoteStorageSettings,
    S3Place,
)
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.remote_log.chunk_cache import ChunkCache
from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm, ChunkedStorage
from kpybroker.hosts.remote_log.directory_store import DirectoryStore
from kpybroker.hosts.remote_log.disk_chunks import ChunkName, DiskChunks
from kpybroker.hosts.remote_log.index_cache import CachedIndexes, IndexCacheSettings
from kpybroker.hosts.remote_log.local_tiered_storage import LocalTieredStorage
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.object_store import ObjectStore
from kpybroker.hosts.remote_log.open_segments import OpenSegments
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.upload_rate import UploadRate
from kpystorage.remote.key_ring import KeyPair, KeyRing

log = logging.getLogger(__name__)


def build(config: BrokerConfig, now: Callable[[], BrokerConfig], directory: str | None) -> RemoteStorage:
    """The store. ``now`` has the present config, since the bounds of the cache of indexes may change; that cache is in
    ``directory``, a log directory, or there is none.

    Raises StartRefused, in one line, for what cannot be used. Nothing is asked of the store: `RemoteStorage.check`
    does that, and raises `StoreAway` where a later try may succeed.
    """
    settings = remote_storage.read(config)
    if settings.without_effect:
        log.warning("tiered storage: without effect: %s", ", ".join(settings.without_effect))
    with _refused():
        storage = _storage(settings)
        return storage if directory is None else CachedIndexes(storage, directory, lambda: _index_bounds(now()))


def open_for_readers(settings: RemoteStorageSettings) -> RemoteStorage:
    """The store for a process beside the brokers: the caches on disks are theirs. Raises StartRefused."""
    if isinstance(settings, ChunkedSettings):
        settings = settings._replace(cache=settings.cache._replace(disk_path=None, disk_bytes=0))
    with _refused():
        return _storage(settings)


@contextmanager
def _refused() -> Iterator[None]:
    """Inside the block, errors become StartRefused, in one line."""
    try:
        yield
    except (StoreFailed, ValueError) as error:
        raise StartRefused(f"tiered storage: {error}") from None
    except ModuleNotFoundError as error:
        raise StartRefused(f"tiered storage: no module {error.name}: pip install 'kpybroker[remote]'") from None
    except OSError as error:
        raise StartRefused(f"tiered storage: {error.filename}: {error.strerror or error}") from None


def _storage(settings: RemoteStorageSettings) -> RemoteStorage:
    return _local_tiered(settings) if isinstance(settings, LocalTieredSettings) else _chunked(settings)


def _index_bounds(config: BrokerConfig) -> IndexCacheSettings:
    most_bytes = config["remote.log.index.file.cache.total.size.bytes"]
    return IndexCacheSettings(most_bytes, config["remote.log.index.file.cache.ttl.ms"])


def _local_tiered(settings: LocalTieredSettings) -> RemoteStorage:
    return LocalTieredStorage(open_store(settings.place), deletes=settings.deletes)


def _chunked(settings: ChunkedSettings) -> RemoteStorage:
    store = open_store(settings.place)
    ring = None if settings.encryption is None else _key_ring(settings.encryption)
    form = ChunkedForm(
        key_prefix=settings.key_prefix,
        chunk_bytes=settings.chunk_bytes,
        compresses=settings.compresses,
        leaves_compressed=settings.leaves_compressed,
        key_ring=ring,
        custom_fields=settings.custom_fields,
    )
    rate = settings.upload_bytes_per_second
    return ChunkedStorage(
        store,
        form,
        _chunk_cache(settings.cache),
        OpenSegments(store, settings.key_prefix, ring, settings.manifests),
        None if rate is None else UploadRate(rate),
    )


def open_store(place: Place) -> ObjectStore:
    """The store at a place. StoreRefuses if it cannot be used, or a library is missing."""
    match place:
        case DirectoryPlace():
            return DirectoryStore(place.path, makes_root=place.is_made)
        case MemoryPlace():
            log.warning("tiered storage: what is stored in memory: is lost when this process ends")
            return MemoryStore()
        case S3Place():
            from kpybroker.hosts.remote_log.obstore_store import open_s3

            return open_s3(place)
        case GcsPlace():
            from kpybroker.hosts.remote_log.obstore_store import open_gcs

            return open_gcs(place)
        case AzurePlace():
            from kpybroker.hosts.remote_log.obstore_store import open_azure

            return open_azure(place)


def _chunk_cache(settings: ChunkCacheSettings) -> ChunkCache:
    memory: RecentBytes[ChunkName] = RecentBytes(settings.memory_bytes, settings.retention_ms, _now_ms)
    disk = None
    if settings.disk_path is not None:
        disk = DiskChunks(settings.disk_path, settings.disk_bytes, settings.retention_ms)
    return ChunkCache(memory, disk, settings.prefetch_bytes)


def _key_ring(settings: EncryptionSettings) -> KeyRing:
    pairs = {name: KeyPair(_file(files.public), _file(files.private)) for name, files in settings.pairs.items()}
    return KeyRing(settings.active, pairs, urandom)


def _file(path: str) -> bytes:
    with open(os.path.expanduser(path), "rb") as file:
        return file.read(1 << 20)


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
