"""Writes the markers of decided transactions, until each partition has its marker.

(Kafka: ``TransactionMarkerChannelManager``.) A transaction coordinator sends `WriteMarkers`. It is queued and handled
in the next turn of the loop, after the client got its answer. A deleted partition needs no marker. A partition whose
leader cannot take the marker is retried, also when the metadata change. If a marker is refused because its producer or
its coordinator is fenced, another coordinator decides about that transaction by now, and it is left alone, as in Kafka.

Invariant: a partition is reported to the coordinator only when its marker is committed there, or none is needed.
"""

import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Final, NamedTuple

from kpybroker.hosts.coordinators.kind import Shard
from kpybroker.hosts.coordinators.markers import Markers
from kpybroker.hosts.coordinators.markers_elsewhere import MarkersElsewhere
from kpybroker.machines.journal import OutgoingRequest
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.leader import Marker
from kpybroker.machines.transactions.events import MarkersWritten, Partition, WriteMarkers
from kpybroker.runtime.fairness.turn import NoWrites, Turn
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes

log = logging.getLogger("kpybroker.transactions")

RETRY_MS: Final = 100
SLICE_NS: Final = 5_000_000
"""The longest time for which markers are written before requests are served."""
_FENCED: Final = frozenset({error_codes.INVALID_PRODUCER_EPOCH, error_codes.TRANSACTION_COORDINATOR_FENCED})


class _Ending:
    """One transaction that ends: the partitions where its marker is missing, where it is under way, and where it was
    written but not reported yet."""

    __slots__ = ("asked", "marker", "missing", "shard", "under_way", "written")

    def __init__(self, shard: Shard, asked: WriteMarkers) -> None:
        self.shard = shard
        self.asked = asked
        self.marker = Marker(
            asked.producer_id, asked.producer_epoch, asked.commit, shard.epoch, asked.transaction_version
        )
        self.missing: dict[Partition, None] = dict.fromkeys(asked.partitions)
        self.under_way: dict[Partition, int] = {}
        """Partitions whose marker is not committed yet, each with the node that was asked to write it."""
        self.written: list[Partition] = []


class ServerTurns(NamedTuple):
    """The parts of the server that writers of markers meet."""

    turn: Callable[[], Turn] = lambda: Turn(NoWrites())
    """The server's turn, which gathers appends."""
    look: Callable[[], object] = bool
    """Serves requests that end transactions before the next marker."""


NO_TURNS: Final = ServerTurns()


class MarkerWriter:
    """The transactions that end, by transactional id."""

    def __init__(
        self,
        scheduler: Scheduler,
        markers: Markers,
        image: Callable[[], MetadataImage],
        timeout_ms: Callable[[], int],
        turns: ServerTurns = NO_TURNS,
        *,
        node_id: int,
        elsewhere: MarkersElsewhere,
    ) -> None:
        """``image`` has the partitions and their leaders. A leader is this node, ``node_id``, or another one, which is
        asked through ``elsewhere``. ``timeout_ms`` limits the wait for the replicas of a marker."""
        self._scheduler = scheduler
        self._markers = markers
        self._node_id = node_id
        self._elsewhere = elsewhere
        self._image = image
        self._timeout_ms = timeout_ms
        self._turn, self._look = turns
        self._endings: dict[str, _Ending] = {}
        self._to_do: dict[str, None] = {}
        self._timer: Timer | None = None
        self._scheduled = False
        self._pursued: _Ending | None = None
        """The one that is being handled. It is reported after all of them were handled."""

    def send(self, shard: Shard, send: OutgoingRequest) -> None:
        """Take `WriteMarkers` from a shard. It replaces an older one of the same transactional id."""
        asked: WriteMarkers = send.message
        self._endings[asked.transactional_id] = _Ending(shard, asked)
        self._to_do[asked.transactional_id] = None
        self._soon()

    def look_again(self) -> None:
        """Try again after a change of leaders or topics: a marker may be possible now, or not needed."""
        if self._endings:
            self._to_do.update(dict.fromkeys(self._endings))
            self._soon()

    def stop(self) -> None:
        """Drop everything; the next leader of a coordinator's partition begins again."""
        if self._timer is not None:
            self._timer.cancel()
        self._elsewhere.stop()
        self._endings.clear()
        self._to_do.clear()

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._scheduler.call_soon(self._run)

    def _run(self) -> None:
        """Write the queued markers together. They are reported once they are in their files."""
        self._scheduled = False
        began_ns = perf_counter_ns()
        endings: list[_Ending] = []
        turn = self._turn()
        turn.begin(began_ns)
        try:
            for transactional_id in list(self._to_do):
                del self._to_do[transactional_id]
                ending = self._endings.get(transactional_id)
                if ending is None:
                    continue
                endings.append(ending)
                self._pursue(ending)
                if perf_counter_ns() - began_ns > SLICE_NS:
                    break
            if turn.settle():
                for ending in endings:
                    self._tell(ending)
            else:
                for ending in endings:
                    self._begin_anew(ending)
        finally:
            self._pursued = None
            turn.end()
        if self._to_do:
            self._soon()

    def _pursue(self, ending: _Ending) -> None:
        if ending.shard.is_over:
            self._forget(ending)
            return
        self._pursued = ending
        topics, timeout_ms = self._image().topics, self._timeout_ms()
        here, write, marker, under_way = self._node_id, self._markers.write, ending.marker, ending.under_way
        for partition in list(ending.missing):
            name, index = partition
            topic = topics.get(name)
            known = None if topic is None else topic.partitions.get(index)
            if known is None:
                self._arrived(ending, partition, error_codes.NONE)
                continue
            leader = known.leader
            if partition in under_way and (under_way[partition] == leader or leader < 0):
                continue
            if leader != here:
                self._write_elsewhere(ending, partition, leader)
                continue
            self._look()
            outcome = write(name, index, marker)
            if isinstance(outcome, int):
                self._arrived(ending, partition, outcome)
            else:
                under_way[partition] = here
                outcome.wait(timeout_ms, partial(self._answered, ending, partition, here))

    def _write_elsewhere(self, ending: _Ending, partition: Partition, leader: int) -> None:
        """Send a marker to another node, even if an earlier leader was asked before: the first answer counts."""
        if leader < 0:
            self._later()
            return
        ending.under_way[partition] = leader
        self._elsewhere.write(leader, partition, ending.marker, partial(self._answered, ending, partition, leader))

    def _begin_anew(self, ending: _Ending) -> None:
        """Write an ending's markers again: some marker of this turn could not be written, and it is unknown which."""
        ending.missing.update(dict.fromkeys(ending.written))
        ending.written.clear()
        self._later()

    def _answered(self, ending: _Ending, partition: Partition, node_id: int, code: int) -> None:
        if ending.under_way.get(partition) == node_id:
            del ending.under_way[partition]
        elif code != error_codes.NONE:
            return  # of one that led before: another is asked by now
        self._arrived(ending, partition, code)

    def _arrived(self, ending: _Ending, partition: Partition, code: int) -> None:
        """Handle the result for a partition: it has its marker, needs none, refuses it for good, or has to be asked
        again."""
        if self._endings.get(ending.asked.transactional_id) is not ending:
            return
        if code == error_codes.NONE:
            if partition not in ending.missing:
                return
            del ending.missing[partition]
            ending.written.append(partition)
            if ending is not self._pursued:
                self._to_do[ending.asked.transactional_id] = None
                self._soon()
        elif code in _FENCED:
            log.error(
                "%s-%d refused the marker of the transaction of %r with %s; it is not sent again",
                *partition,
                ending.asked.transactional_id,
                error_codes.name(code),
            )
            self._forget(ending)
        else:
            self._later()

    def _tell(self, ending: _Ending) -> None:
        if not ending.written or self._endings.get(ending.asked.transactional_id) is not ending:
            return
        shard, asked = ending.shard, ending.asked
        if not shard.has_enough_in_sync:
            self._later()
            return
        written, ending.written = ending.written, []
        if not ending.missing:
            self._forget(ending)
        event = MarkersWritten(
            asked.transactional_id, asked.producer_id, asked.producer_epoch, written, self._scheduler.now_ms()
        )
        shard.submit(event, None, asked.transactional_id)

    def _forget(self, ending: _Ending) -> None:
        if self._endings.get(ending.asked.transactional_id) is ending:
            del self._endings[ending.asked.transactional_id]

    def _later(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self.look_again()
