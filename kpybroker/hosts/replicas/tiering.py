"""Tiered storage, as the replicas of a node see it. `kpybroker.hosts.remote_log` implements it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kpybroker.hosts.network.peer import Peer
from kpybroker.machines.partition.role import Role
from kpystorage.log import Log
from kpystorage.retention import expendable

if TYPE_CHECKING:
    from kpybroker.hosts.replicas.replica import Replica
    from kpystorage.unmade import LogStart


class Tiering(Protocol):
    """The decisions about the logs of this node that depend on what the store has."""

    def expendable(self, replica: "Replica", role: Role, now_ms: int) -> int:
        """The number of a log's oldest segments that may be deleted from the disk."""

    def begin_in_middle(self, replica: "Replica", leader: Peer, done: Callable[[str | None], object]) -> None:
        """Make the log of a follower begin where its leader's begins on the disk (Kafka: ``TierStateMachine``).

        ``done`` gets None, or the reason why this has to be tried again."""

    def skips_tiered(self, replica: "Replica") -> bool:
        """Whether a follower is empty, and is to begin behind what is copied
        (``follower.fetch.last.tiered.offset.enable``, KIP-1023)."""

    def check_beginning(self, replica: "Replica", log: Log) -> None:
        """Check the log of a tiered topic before this node's leadership begins with it: a log that lost its disk has to
        begin behind what the store has. KafkaError: NOT_LEADER_OR_FOLLOWER, as long as that is not known."""

    def beginning(self, replica: "Replica") -> "LogStart | None":
        """The place where the log of a partition begins that this node leads and has no files of; None where the store
        has nothing. KafkaError: NOT_LEADER_OR_FOLLOWER, as long as that is not known; its role begins afterwards."""


class NoTiering:
    """The retention of logs of which no part is kept elsewhere. Of others it does not know what a store has, so it
    deletes nothing of them."""

    def expendable(self, replica: "Replica", role: Role, now_ms: int) -> int:  # noqa: ARG002
        log = role.log
        if log.config.is_tiered:
            return 0
        bounds = log.end.offset, log.local_log_start_offset, role.high_watermark.offset
        with log.directory.failing():
            return expendable(log.segments, *bounds, log.config, now_ms)

    def begin_in_middle(self, replica: "Replica", leader: Peer, done: Callable[[str | None], object]) -> None:  # noqa: ARG002
        done("tiered storage is not enabled on this broker")

    def skips_tiered(self, replica: "Replica") -> bool:  # noqa: ARG002
        return False

    def check_beginning(self, replica: "Replica", log: Log) -> None: ...

    def beginning(self, replica: "Replica") -> "LogStart | None":  # noqa: ARG002
        return None


class LateTiering:
    """The tiered storage of a node for its replicas, which are made before it."""

    def __init__(self, made: Callable[[], Tiering]) -> None:
        self._made = made

    def expendable(self, replica: "Replica", role: Role, now_ms: int) -> int:
        return self._made().expendable(replica, role, now_ms)

    def begin_in_middle(self, replica: "Replica", leader: Peer, done: Callable[[str | None], object]) -> None:
        self._made().begin_in_middle(replica, leader, done)

    def skips_tiered(self, replica: "Replica") -> bool:
        return self._made().skips_tiered(replica)

    def check_beginning(self, replica: "Replica", log: Log) -> None:
        self._made().check_beginning(replica, log)

    def beginning(self, replica: "Replica") -> "LogStart | None":
        return self._made().beginning(replica)
