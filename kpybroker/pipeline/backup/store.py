"""The place of a backup: a directory, or a bucket with a prefix. Errors as `StoreFailed` and BadManifest."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from kpybroker.config import remote_storage
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import REMOTE_STORE
from kpybroker.config.remote_storage import ChunkedSettings, DirectoryPlace
from kpybroker.hosts.remote_log.object_store import ObjectStore, StoredObject
from kpybroker.hosts.remote_log.remote_storage import StoreRefuses
from kpybroker.hosts.remote_log.stores import open_store
from kpybroker.machines.backup import manifest as form
from kpybroker.machines.backup.manifest import BadManifest, RunManifest, StoredPiece
from kpywire.varint import Buffer

READ_BYTES: Final = 4 << 20


class DamagedPiece(Exception):
    """A piece does not have the bytes that were written. The message is one line."""


class BackupStore:
    """The objects of a backup. May be used by several threads."""

    def __init__(self, store: ObjectStore, prefix: str = "") -> None:
        self.name = f"{store.name}/{prefix}".rstrip("/")
        self._store = store
        self._prefix = prefix

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        """Write an object."""
        self._store.put(self._prefix + key, parts)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with ``prefix``."""
        for each in self._store.listed(self._prefix + prefix):
            yield StoredObject(each.key.removeprefix(self._prefix), each.size_bytes)

    def runs(self) -> list[str]:
        """The complete runs, the oldest first."""
        found = (form.run_of_manifest(each.key) for each in self.listed(form.RUNS))
        return sorted(run for run in found if run is not None)

    def manifest(self, run: str) -> RunManifest:
        """The manifest of a run. Raises BadManifest."""
        key = form.manifest_key(run)
        try:
            return form.read_manifest(bytes(self._store.get(self._prefix + key, form.MOST_MANIFEST_BYTES)))
        except BadManifest as error:
            raise BadManifest(f"{self.name}: {key}: {error}") from None

    def entry(self, key: str) -> StoredPiece | None:
        """The entry of a piece; None for one that cannot be read, since the piece is written again then."""
        try:
            return form.read_entry(bytes(self._store.get(self._prefix + key, form.MOST_ENTRY_BYTES)))
        except BadManifest:
            return None

    def read(self, piece: StoredPiece) -> Iterator[Buffer]:
        """The bytes of a piece, some at a time. Raises DamagedPiece at the end if they are not those that were
        written."""
        digest, position = sha256(), 0
        while position < piece.size_bytes:
            found = self._store.get_range(
                self._prefix + piece.key, position, min(position + READ_BYTES, piece.size_bytes)
            )
            if not found:
                raise DamagedPiece(f"{piece.key} ends at byte {position} of {piece.size_bytes}")
            digest.update(found)
            position += len(found)
            yield found
        if digest.hexdigest() != piece.sha256:
            raise DamagedPiece(f"{piece.key} has another SHA-256 than the bytes that were written")

    def close(self) -> None:
        """End threads and connections."""
        self._store.close()


def open_backup(place: str, configs: Path | None = None, *, is_made: bool = False) -> BackupStore:
    """The store at a directory, or at a URL such as ``s3://bucket/prefix``. ``configs`` is a file with the
    ``rsm.config.storage`` configs of tiered storage. ``is_made``: whether a directory is made where it is missing.
    Raises ConfigError, StoreFailed."""
    if "://" not in place:
        return BackupStore(open_store(DirectoryPlace(place, is_made=is_made)))
    settings = remote_storage.read(BrokerConfig.load(configs, {REMOTE_STORE: place}))
    if not isinstance(settings, ChunkedSettings):
        raise StoreRefuses(f"{place}: the configs name a store of another kind")
    where = settings.place
    if isinstance(where, DirectoryPlace):
        where = where._replace(is_made=is_made)
    return BackupStore(open_store(where), settings.key_prefix)
