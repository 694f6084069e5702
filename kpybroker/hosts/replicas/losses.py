"""Logs that lack records which they had, found at their first use: such a replica does not lead, and fetches them
again.

If others are in sync, the node reports that this replica is in no directory any more (``DirectoryId.LOST``, KIP-858).
The controller then removes the replica from the in-sync set and lets another one lead. The log is truncated before the
gap, and follows. If no other replica is in sync, records that were never flushed are cut off. A gap below the recovery
point takes the log offline instead, since an administrator may be able to restore its files.

Not here: the check of the files (`kpystorage.losses`), and replicas that were removed from all in-sync sets with their
broker's registration.

Invariant: no role begins over a loss that another replica in sync could make good before the controller knows of it.
"""

import logging
from collections.abc import Callable, Mapping

from kpybroker.hosts.replicas.neighbours import Assigning
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import LOST_DIRECTORY
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.recovery import Loss
from kpywire import error_codes

log = logging.getLogger("kpybroker.replicas")

TAKES_PART_AFTER_MS = 1_000
"""After this time the metadata with another leader have arrived, if there is another."""
Place = tuple[bytes, int]
"""(topic id, partition index)."""


class LostRecords:
    """The replicas of a node that have lost records, until they take part again."""

    def __init__(
        self,
        scheduler: Scheduler,
        node_id: int,
        assignments: Assigning,
        directory_ids: Mapping[LogDirectory, bytes],
        follow: Callable[[Replica], object],
    ) -> None:
        """``follow`` has a replica fetched from its leader, now that it can be."""
        self._scheduler = scheduler
        self._node_id = node_id
        self._assignments = assignments
        self._directory_ids = directory_ids
        self._follow = follow
        self._leaving: set[Place] = set()
        """The replicas whose loss was reported to the controller."""

    def check(self, replica: Replica, found: Log) -> None:
        """Check a log before a role begins with it.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, while the controller lets another replica lead.
            CorruptLog: no other replica has the missing records, and they had been flushed.
        """
        loss = found.directory.loss_of(found)
        if loss is None:
            return
        if (replica.topic.id, replica.index) not in self._leaving:
            is_in_sync, others = self._in_sync(replica)
            if not others and not loss.is_cut and loss.offset < found.recovery_point:
                raise found.directory.refuse(found, _why_refused(found, loss))
            self._cut(found, loss, others)
            if not others or not is_in_sync:
                found.directory.losses.settle(found)
                return
            self._leave(replica, found)
        raise KafkaError(error_codes.KAFKA_STORAGE_ERROR, f"{found.name}: {loss}; others have them")

    def refused(self, replica: Replica) -> None:
        """Give up leadership, since the log of the replica cannot be opened, if others are in sync."""
        is_in_sync, others = self._in_sync(replica)
        if others and is_in_sync and (replica.topic.id, replica.index) not in self._leaving:
            self._leave(replica, None)

    def _in_sync(self, replica: Replica) -> tuple[bool, list[int]]:
        """(whether this replica is in sync, the others that are)."""
        isr = replica.partition.isr
        return self._node_id in isr, [each for each in isr if each != self._node_id]

    def _cut(self, found: Log, loss: Loss, others: list[int]) -> None:
        remedy = f"they are fetched again, brokers {others} are in sync" if others else "nobody else is in sync"
        log.error("%s: %s; %s. `kpybroker check` says what else is wrong", found.name, loss, remedy)
        if not loss.is_cut:
            found.truncate_to(loss.offset, self._scheduler.now_ms())
            log.error(
                "%s was truncated to offset %d; the records behind the gap, up to offset %d, are removed",
                found.name, found.end.offset, loss.end_offset,
            )  # fmt: skip

    def _leave(self, replica: Replica, found: Log | None) -> None:
        """Have another replica lead."""
        topic_id, index = replica.topic.id, replica.index
        self._leaving.add((topic_id, index))
        self._assignments.assign(topic_id, index, LOST_DIRECTORY, lambda: self._has_left(replica, found))

    def _has_left(self, replica: Replica, found: Log | None) -> None:
        self._scheduler.call_later(TAKES_PART_AFTER_MS, self._take_part, replica, found)

    def _take_part(self, replica: Replica, found: Log | None) -> None:
        """Take part again: another replica leads by now, unless no other could."""
        topic_id, index = replica.topic.id, replica.index
        self._leaving.discard((topic_id, index))
        if found is None or replica.gone or not found.is_open:
            return
        found.directory.losses.settle(found)
        self._assignments.assign(topic_id, index, self._directory_ids[found.directory])
        self._follow(replica)


def _why_refused(found: Log, loss: Loss) -> str:
    return (
        f"{found.path}: {loss}, though everything below offset {found.recovery_point} had been flushed. Nothing is "
        f"removed: put the files back from a copy, or stop the node and see what `kpybroker check` can mend. (If the "
        f"topic was compacted once, set its cleanup.policy to compact until it is open.)"
    )
