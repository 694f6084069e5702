"""The share partitions that this node leads, and the sessions of their readers (Kafka: ``SharePartitionManager``).

A share partition is taken up when the first member fetches it. It is given up with the last session of its group, once
its dead letters are settled, and when this node stops leading the partition.
"""

from collections.abc import Iterable
from typing import Protocol

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.sessions import Partition, SessionKey, ShareSession, ShareSessions
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share.dead_letter_writer import DeadLetterWriter
from kpybroker.requests.serving.share.led import LedSharePartition
from kpybroker.requests.serving.share.metrics import ShareMetrics
from kpybroker.requests.serving.share.settings import ReadingSettings, ShareGroupSettings
from kpybroker.runtime.calls.client import ConnectedClient
from kpywire import error_codes


class ShareConnection:
    """A connection with share sessions. When it closes, they end, and their records are released."""

    __slots__ = ("_leader", "connection_id")

    def __init__(self, leader: "ShareLeader", connection_id: str) -> None:
        self._leader = leader
        self.connection_id = connection_id

    def close(self) -> None:
        """End its sessions."""
        self._leader.disconnected(self.connection_id)


class ShareLeader:
    """All share partitions of one node."""

    def __init__(self, broker: Context) -> None:
        self.broker = broker
        self.sessions = ShareSessions(int(broker.config["group.share.max.share.sessions"]))
        self.metrics = ShareMetrics()
        self.led: dict[SharePartitionKey, LedSharePartition] = {}
        self.dead_letters = DeadLetterWriter(self)
        self._settings = ShareGroupSettings()
        self._connections = 0

    def settings_of(self, group_id: str) -> ReadingSettings:
        """The settings of a group."""
        return self._settings.of(group_id, self.broker.image, self.broker.config)

    def connection_of(self, client: ConnectedClient) -> str:
        """The id of a client's connection, which ends the client's sessions when it closes."""
        if client.shares is None:
            self._connections += 1
            client.shares = ShareConnection(self, str(self._connections))
        connection: ShareConnection = client.shares
        return connection.connection_id

    def find(self, group_id: str, partition: Partition) -> LedSharePartition | None:
        """A share partition that is taken up."""
        return self.led.get(SharePartitionKey(group_id, *partition))

    def take_up(self, group_id: str, partition: Partition) -> LedSharePartition:
        """A share partition, taken up if that has not happened yet.

        Raises:
            KafkaError: this node does not lead the partition.
            StorageError: its log could not be opened.
        """
        key = SharePartitionKey(group_id, *partition)
        found = self.led.get(key)
        if found is None:
            replica = self.broker.replicas.find(*partition)
            found = self.led[key] = LedSharePartition(self, key, replica)
            found.load()
        return found

    def drop(self, led: LedSharePartition, error: KafkaError) -> None:
        """Give up a share partition for this reason."""
        if self.led.get(led.key) is led:
            del self.led[led.key]
        if led.end is None:
            led.ended(error)

    def end_session(self, key: SessionKey, session: ShareSession) -> None:
        """Release the records of a session that has ended."""
        for partition in session.partitions:
            led = self.find(key.group_id, partition)
            if led is not None:
                led.release(key.member_id)
        if not self.sessions.has_group(key.group_id):
            for led in [led for led in self.led.values() if led.key.group_id == key.group_id]:
                self.rest(led)
            self.metrics.forget(key.group_id)

    def rest(self, led: LedSharePartition) -> None:
        """Give up a share partition, unless its group has sessions again, or it has dead letters to write."""
        group_id = led.key.group_id
        if self.sessions.has_group(group_id):
            led.linger(for_dead_letters=False)
        elif led.partition.has_dead_letters:
            led.linger(for_dead_letters=True)
        else:
            self._settings.forget(group_id)
            self.drop(led, KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER))

    def disconnected(self, connection_id: str) -> None:
        """End the sessions of a connection that was lost."""
        for key, session in self.sessions.disconnected(connection_id).items():
            self.end_session(key, session)

    def stop(self) -> None:
        """Give up everything: share groups are not served any more."""
        self.sessions = ShareSessions(int(self.broker.config["group.share.max.share.sessions"]))
        self.metrics.groups.clear()
        self._drop_all(list(self.led.values()))

    def _drop_all(self, some: Iterable[LedSharePartition]) -> None:
        for led in some:
            self.drop(led, KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER))


class ShareContext(Context, Protocol):
    """The broker, as handlers of share groups see it."""

    share_leader: ShareLeader
    """The share partitions that this node leads, made when it is first used."""
