"""The share sessions of a broker: which partitions a member reads, and which request of it comes next.

(Kafka: ``ShareSessionCache``, ``ShareSession``.) A member of a group has one session at each broker. Epoch 0 opens it,
each later request has the next epoch, -1 ends it. There is a limit to the number of sessions, and none is dropped for
another.

Not here: what becomes of the records of a session that ends; its owner releases them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LAST_EPOCH: Final = 0x7FFF_FFFF

Partition = tuple[bytes, int]
"""Topic id and partition."""


class SessionKey(NamedTuple):
    """The member that has a session."""

    group_id: str
    member_id: str


class ShareSession:
    """One session. ``epoch`` is that of the next request."""

    __slots__ = ("connection_id", "epoch", "partitions")

    def __init__(self, connection_id: str, partitions: Iterable[Partition]) -> None:
        self.connection_id = connection_id
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[Partition, None] = dict.fromkeys(partitions)
        """The partitions that are read, in the order in which they were added."""

    def rotated(self) -> list[Partition]:
        """The partitions in the order of this request: each of them is the first one in turn."""
        partitions = list(self.partitions)
        if not partitions:
            return []
        first = (self.epoch - 1) % len(partitions)
        return partitions[first:] + partitions[:first]


class ShareSessions:
    """All sessions, by member."""

    def __init__(self, limit: int) -> None:
        """``limit`` is ``group.share.max.share.sessions``."""
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions."""
        return sum(len(each.partitions) for each in self._sessions.values())

    def open(self, key: SessionKey, connection_id: str, partitions: Iterable[Partition]) -> ShareSession:
        """Open a session in place of an earlier one of this member.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._limit:
            raise KafkaError(error_codes.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(connection_id, partitions)
        return session

    def proceed(
        self, key: SessionKey, epoch: int, added: Iterable[Partition] = (), forgotten: Iterable[Partition] = ()
    ) -> ShareSession:
        """Take the next request of a session.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._found(key)
        if epoch != session.epoch:
            raise KafkaError(error_codes.INVALID_SHARE_SESSION_EPOCH)
        session.partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            session.partitions.pop(partition, None)
        session.epoch = INITIAL_EPOCH + 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def end(self, key: SessionKey) -> ShareSession:
        """End a session with its final request.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._found(key)
        del self._sessions[key]
        return session

    def disconnected(self, connection_id: str) -> dict[SessionKey, ShareSession]:
        """End the sessions of a connection that was lost, and return them."""
        ended = {key: each for key, each in self._sessions.items() if each.connection_id == connection_id}
        for key in ended:
            del self._sessions[key]
        return ended

    def has_group(self, group_id: str) -> bool:
        """Whether a member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def _found(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(error_codes.SHARE_SESSION_NOT_FOUND)
        return session
