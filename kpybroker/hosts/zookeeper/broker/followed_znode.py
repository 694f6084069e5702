"""One znode that a broker follows: it is read and watched, after each new connection and after each change.

Invariant: the znode is watched whenever there is a connection, whether it is there or not.
"""

import logging
from collections.abc import Callable

from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Exists, Get, OperationFailed, Znode
from kpybroker.machines.zookeeper.client.session import ENDED, Lost

log = logging.getLogger("kpybroker.zookeeper")


class FollowedZnode:
    """A znode. ``changed`` is called with what was read, or with None if it is missing."""

    def __init__(self, client: ZooKeeperClient, path: str, changed: Callable[[Znode | None], object]) -> None:
        self._client = client
        self._path = path
        self._changed = changed

    def look(self) -> None:
        """Read and watch the znode, after a new connection and after each event."""
        self._client.submit(Get(self._path, is_watched=True), self._read)

    def _read(self, result: Znode | OperationFailed | Lost) -> None:
        if isinstance(result, Lost):
            self._look_again(result)
        elif not isinstance(result, OperationFailed):
            self._changed(result)
        elif result.code == error_codes.NO_NODE:
            self._client.submit(Exists(self._path, is_watched=True), self._watched)
        else:
            log.error("%s cannot be read: %s", self._path, result)

    def _watched(self, result: object) -> None:
        """Note that the znode is missing and watched. If it is there again, read it."""
        if isinstance(result, OperationFailed):
            self._changed(None)
        elif isinstance(result, Lost):
            self._look_again(result)
        else:
            self.look()

    def _look_again(self, lost: Lost) -> None:
        """The connection was lost before the answer, so nothing is watched. A new session looks by itself."""
        if lost.state not in ENDED:
            self.look()
