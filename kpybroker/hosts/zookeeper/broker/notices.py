"""Notices that something in ZooKeeper has changed: sequential znodes below one parent (Kafka's
``ZkNodeChangeNotificationListener``).

Each is handled once, in the order of the numbers; what it names is read again by its handler. After a quarter of an
hour it is deleted by whichever broker sees it. Invariant: the parent is watched after each look.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import (
    Create,
    Delete,
    Get,
    GetChildren,
    Multi,
    Stat,
    Write,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")

LAST_MS: Final = 15 * 60 * 1_000
"""The age at which a notice is deleted."""
Handle = Callable[[str, bytes | None], Awaitable[None]]
"""Handles a notice, given its path and its content. Raises InvalidZnode if it cannot be understood."""


class Notices:
    """The notices below one parent."""

    def __init__(self, client: ZooKeeperClient, parent: str, now_ms: Callable[[], int], handle: Handle) -> None:
        self._client = client
        self.parent = parent
        self._now_ms = now_ms
        self._handle = handle
        self._last = -1

    async def look(self) -> None:
        """Watch the parent, and handle the notices that are new. Called when a session begins and after each event."""
        names = (await self._client.ask_until_answered(GetChildren(self.parent, is_watched=True))).names
        numbered = sorted((number, name) for name in names if (number := paths.sequence(name)) is not None)
        for number, name in numbered:
            path = paths.child(self.parent, name)
            try:
                found = await self._client.ask_until_answered(Get(path))
                if number > self._last:
                    self._last = number
                    await self._handle(path, found.data)
                await self._purge(path, found.stat)
            except ZooKeeperError as error:
                if error.code != error_codes.NO_NODE:  # another broker has deleted it
                    log.warning("%s", error)
            except InvalidZnode as error:
                log.warning("%s", error)

    async def _purge(self, path: str, stat: Stat) -> None:
        if self._now_ms() - stat.ctime > LAST_MS:
            await self._client.ask_until_answered(Delete(path))


def new_notice(prefix: str, content: bytes, acls: Sequence[ZnodeAcl]) -> Create:
    """The operation that creates a notice. ``prefix`` is its path without the number."""
    return Create(prefix, content, acls, is_sequential=True)


async def write_together(
    client: ZooKeeperClient, writes: Sequence[Write], place: int, expected_codes: Collection[int]
) -> list[Any] | None:
    """Write something together with the notice of it, so that no broker misses what a writer that dies has written;
    Kafka writes one after the other.

    Returns the results, or None if ZooKeeper refuses the write at ``place`` with an expected error. Raises
    ZooKeeperError for any other error. If an answer is lost the writes are sent again, so the expected error may come
    of writes that were done, with their notice.
    """
    try:
        results: list[Any] = await client.ask_until_answered(Multi(writes))
    except ZooKeeperError as error:
        if error.failed.failed_at != place or error.code not in expected_codes:
            raise
        return None
    return results
