"""The watches of one session, by the path that the server knows. Pure.

A watch fires once. A session that connects to another server registers its watches there.
"""

from typing import Any

from kpybroker.machines.zookeeper.client.error_codes import NO_NODE
from kpybroker.machines.zookeeper.client.frames import EventType, WatchedEvent, Watches
from kpybroker.machines.zookeeper.client.operations import Exists, Get, GetChildren, OperationFailed, absolute


class Watching:
    """The watches that are registered."""

    def __init__(self) -> None:
        # Dictionaries, since the order of a set is not the same in each run.
        self._data: dict[str, None] = {}
        self._existence: dict[str, None] = {}
        self._children: dict[str, None] = {}

    def answered(self, operation: object, result: Any, chroot: str) -> None:
        """An operation was answered: it may have left a watch."""
        if not isinstance(operation, Exists | Get | GetChildren) or not operation.is_watched:
            return
        path = absolute(operation.path, chroot)
        if not isinstance(result, OperationFailed):
            kept = self._children if isinstance(operation, GetChildren) else self._data
            kept[path] = None
        elif isinstance(operation, Exists) and result.code == NO_NODE:
            self._existence[path] = None

    def fired(self, event: WatchedEvent) -> bool:
        """Remove the watches that an event ends; whether there was one."""
        ended = []
        if event.type in (EventType.DELETED, EventType.CHILDREN_CHANGED):
            ended.append(self._children)
        if event.type is not EventType.CHILDREN_CHANGED:
            ended += [self._data, self._existence]
        found = [each for each in ended if event.path in each]
        for each in found:
            del each[event.path]
        return bool(found)

    def registered(self) -> Watches:
        """All watches."""
        return Watches(list(self._data), list(self._existence), list(self._children))
