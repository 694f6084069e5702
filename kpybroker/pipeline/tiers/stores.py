"""The store of a tiered cluster, for readers beside its brokers: named by configs that a broker has, opened when it is
first used."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from kpybroker.config import remote_storage
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.remote_storage import RemoteStorageSettings
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage
from kpybroker.hosts.remote_log.stores import open_for_readers
from kpybroker.machines.config_def import ConfigError


class BadStore(Exception):
    """A store that cannot be used; the message is one line without secrets."""


class TierStore:
    """A store that may be read by several threads. Another process that gets it opens it for itself."""

    def __init__(self, settings: RemoteStorageSettings) -> None:
        self.settings = settings
        self._lock = Lock()
        self._storage: RemoteStorage | None = None

    def __reduce__(self) -> tuple[type, tuple[RemoteStorageSettings]]:
        return TierStore, (self.settings,)

    def opened(self) -> RemoteStorage:
        """The store. Nothing is asked of it. Raises BadStore."""
        with self._lock:
            if self._storage is None:
                try:
                    self._storage = open_for_readers(self.settings)
                except StartRefused as error:
                    raise BadStore(str(error)) from None
            return self._storage

    def close(self) -> None:
        """End threads and connections."""
        with self._lock:
            if self._storage is not None:
                self._storage.close()
            self._storage = None


def store_of(configs: Mapping[str, str]) -> TierStore:
    """The store that configs name. Raises BadStore if they contradict one another, or name none."""
    try:
        return TierStore(remote_storage.read(BrokerConfig(configs)))
    except ConfigError as error:
        raise BadStore(str(error)) from None


def store_of_file(path: Path) -> TierStore:
    """The store that the server.properties of a broker names. Raises BadStore."""
    try:
        return TierStore(remote_storage.read(BrokerConfig.load(path)))
    except ConfigError as error:
        raise BadStore(str(error)) from None
