"""The one place that computes a change of a partition: new ISR, new leader, finished reassignment, ELR.

It is a pure function of the partition and of the change that is wanted (Kafka's ``PartitionChangeBuilder``). Elections
happen here and nowhere else, so their rules hold for every cause of a change.

Invariants: a leader is elected from the ISR, or from the eligible leader replicas when the ISR is empty, unless the
election may be unclean; an unclean leader is alone in the ISR and starts RECOVERING.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.topic import NO_LEADER, NO_LEADER_CHANGE, RECOVERING, RECOVERY_UNCHANGED, Partition
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """The kind of leader that is wanted."""

    PREFERRED = "the first replica, if it can lead"
    ONLINE = "the present leader, if it can lead"
    UNCLEAN = "any replica that is up, rather than none"


class PartitionChange:
    """A change in the making: set the wanted state, then :meth:`build` it once."""

    def __init__(  # noqa: PLR0913
        self,
        topic_id: bytes,
        partition_id: int,
        partition: Partition,
        *,
        level: int,
        min_isr: int,
        elr_enabled: bool,
        may_lead: Callable[[int], bool],
        default_directory: Callable[[int], bytes],
        with_zookeeper: bool = False,
    ) -> None:
        """``may_lead`` tells which brokers can lead now; ``default_directory`` tells where a broker puts a new
        replica. ``with_zookeeper`` is set while brokers in ZooKeeper mode may be in the cluster."""
        self._topic_id = topic_id
        self._partition_id = partition_id
        self._partition = partition
        self._level = level
        self._min_isr = min_isr
        self._elr_enabled = elr_enabled
        self._may_lead = may_lead
        self._default_directory = default_directory
        self._with_zookeeper = with_zookeeper
        self._elr = list(partition.elr)
        self._directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.election = Election.ONLINE
        self.isr = list(partition.isr)
        self.replicas = list(partition.replicas)
        self.removing = list(partition.removing_replicas)
        self.adding = list(partition.adding_replicas)
        self.leader_recovery_state = partition.leader_recovery_state
        self.unclean_shutdown_replicas: Sequence[int] = ()

    def assign_directories(self, directories: Mapping[int, bytes]) -> None:
        """Set the log directories that hold the replicas of some brokers."""
        self._directories.update(directories)

    def build(self) -> PartitionChangeRecord | None:
        """Return the record that makes the change, or None if nothing changes."""
        was = self._partition
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._partition_id)
        self._finish_reassignment()
        self._choose_elr()
        self._elect(record)
        if record.leader == NO_LEADER_CHANGE and not set(was.replicas) <= set(self.replicas):
            record.leader = was.leader  # a leader epoch must pass when a replica leaves
        self._write_elr(record)
        if record.isr is None and (self.isr or self._elr_enabled) and self.isr != list(was.isr):
            record.isr = self.isr
        self._raise_leader_epoch_of_old_levels(record)
        self._write_last_known_leader(record)
        self._write_assignment(record)
        if self.leader_recovery_state != was.leader_recovery_state:
            record.leader_recovery_state = self.leader_recovery_state
        return None if _changes_nothing(record) else record

    def _finish_reassignment(self) -> None:
        """Finish a reassignment once all added replicas are in the ISR: the replicas to be removed leave (KIP-455).

        If more replicas leave than are added, all that stay must be in the ISR (``PartitionReassignmentReplicas``).
        """
        if not self.adding and not self.removing:
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        needed = replicas if len(self.adding) < len(self.removing) else self.adding
        if not isr or not replicas or not set(needed) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, [], []

    def _choose_elr(self) -> None:
        """Choose the eligible leader replicas. If the ISR falls below ``min.insync.replicas``, a replica that was in
        sync stays eligible unless it stopped uncleanly (KIP-966).

        A broker that is no longer a replica is never eligible. Kafka keeps those that a reassignment removed. They
        never lead, and as long as they are eligible the last known leader does not lead either.
        """
        if not self._elr_enabled:
            return
        if len(self.isr) >= self._min_isr:
            self._elr = []
            return
        candidates = {*self._elr, *self._partition.isr}.intersection(self.replicas)
        self._elr = sorted(candidates.difference(self.isr, self.unclean_shutdown_replicas))

    def _can_lead(self, replica: int) -> bool:
        eligible = replica in self.isr or (not self.isr and replica in self._elr)
        return eligible and self._may_lead(replica)

    def _winner(self) -> tuple[int, bool]:
        """Return the broker that is to lead (or NO_LEADER), and whether its election is unclean."""
        present = self._partition.leader
        if self.election is Election.PREFERRED and self._can_lead(self.replicas[0]):
            return self.replicas[0], False
        if self._can_lead(present):
            return present, False
        for replica in self.replicas:
            if self._can_lead(replica):
                return replica, False
        last_known = self._partition.last_known_elr
        if (
            self._elr_enabled
            and not self._elr
            and not self.isr
            and len(last_known) == 1
            and self._may_lead(last_known[0])
        ):
            return last_known[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _elect(self, record: PartitionChangeRecord) -> None:
        winner, unclean = self._winner()
        if winner == self._partition.leader:
            return
        if winner in self._elr:
            self.isr = [winner]
            self._elr = [replica for replica in self._elr if replica != winner]
        record.leader = winner
        if unclean:
            record.isr = [winner]
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _write_elr(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self._elr_enabled:
            self._elr = []
        if self._elr != list(self._partition.elr):
            record.eligible_leader_replicas = self._elr

    def _raise_leader_epoch_of_old_levels(self, record: PartitionChangeRecord) -> None:
        """Raise the leader epoch when the ISR shrinks, as levels before 3.6 require (KAFKA-15021), and brokers in
        ZooKeeper mode, which take an order for its epoch."""
        keeps = self._level >= metadata_version.ISR_SHRINK_KEEPS_LEADER_EPOCH and not self._with_zookeeper
        if keeps or record.leader != NO_LEADER_CHANGE:
            return
        if record.isr is not None and not set(self._partition.isr) <= set(record.isr):
            record.leader = self._partition.leader

    def _write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._elr_enabled:
            return
        last_known = self._partition.last_known_elr
        if record.leader == NO_LEADER and not last_known:
            record.last_known_elr = [self._partition.leader]
        elif record.leader >= 0 and last_known:
            record.last_known_elr = []

    def _write_assignment(self, record: PartitionChangeRecord) -> None:
        was = self._partition
        if self.replicas:
            if self._level >= metadata_version.DIRECTORY_ASSIGNMENT:
                directories = [
                    self._directories[replica] if replica in self._directories else self._default_directory(replica)
                    for replica in self.replicas
                ]
                if directories != list(was.directories):
                    record.directories = directories
            if self.replicas != list(was.replicas):
                record.replicas = self.replicas
        if self.removing != list(was.removing_replicas):
            record.removing_replicas = self.removing
        if self.adding != list(was.adding_replicas):
            record.adding_replicas = self.adding


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    changes = (
        record.isr,
        record.eligible_leader_replicas,
        record.last_known_elr,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.directories,
    )
    unchanged = all(change is None for change in changes)
    return unchanged and record.leader == NO_LEADER_CHANGE and record.leader_recovery_state == RECOVERY_UNCHANGED
