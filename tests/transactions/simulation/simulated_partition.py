"""A partition of the users' data: its records and markers, and the rules of who may write (KIP-98, KIP-890)."""

from collections.abc import Callable
from typing import NamedTuple

from simulated_network import Network

from kpybroker.machines.partition.verification import Verifications
from kpybroker.machines.transactions.events import Partition, WriteMarkers
from kpystorage.errors import StorageError
from kpystorage.log_offset import LogOffset
from kpystorage.producer_states import ProducerStates, TransactionMarker
from kpywire import error_codes
from kpywire.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader

Reply = Callable[[int], None]
Verify = Callable[["Produced", Partition, Reply], None]
"""Asks the coordinator about a partition, and passes on its error code."""


class Produced(NamedTuple):
    """One record of a producer. ``generation`` 2 has its partitions added by the leader, 1 has added them before."""

    transactional_id: str
    producer: tuple[int, int]
    sequence: int
    value: int
    generation: int


class Entry(NamedTuple):
    """The entry of the log: a record, or a marker."""

    header: BatchHeader
    value: int = -1
    marker: TransactionMarker | None = None


class SimulatedPartition:
    """The leader, and the log that outlives it."""

    def __init__(self, name: Partition, network: Network, verify: Verify) -> None:
        self.name = name
        self.log: list[Entry] = []
        self._network = network
        self._verify = verify
        self._leader_epoch = 0
        self.restart()

    def restart(self) -> None:
        """Another leader: it knows what is in the log, and nobody whom the old one was about to answer."""
        self._leader_epoch += 1
        self.verifications = Verifications()
        self.producers = ProducerStates("-".join(map(str, self.name)))
        for entry in self.log:
            self._apply(entry)

    def produce(self, produced: Produced, reply: Reply) -> None:
        """Append a record, after its transaction was verified if it has to be."""
        producer_id, epoch = produced.producer
        if self.producers.has_open_transaction(producer_id, epoch):
            reply(self._append(produced))
            return
        guard = self.verifications.begin(
            producer_id, epoch, produced.sequence, self._network.now_ms, bumps_epoch=produced.generation == 2
        )
        leader_epoch = self._leader_epoch

        def verified(code: int) -> None:
            if leader_epoch != self._leader_epoch:
                return
            if code == error_codes.NONE:
                guard.verified = True
                code = self._append(produced)
            reply(code)

        self._verify(produced, self.name, verified)

    def _append(self, produced: Produced) -> int:
        """The same as the leader's ``append_in_transaction``."""
        producer_id, epoch = produced.producer
        header = self._header(producer_id, epoch, produced.sequence, TRANSACTIONAL_MASK)
        try:
            if self.producers.repeated(header) is None:
                if not self.producers.has_open_transaction(producer_id, epoch):
                    self.verifications.require(producer_id)
                    self.producers.check_epoch(header)
                    self.verifications.check_sequence(header, self.producers)
                self.producers.check(header)
                self._write(Entry(header, produced.value))
                self.verifications.end(producer_id)
        except StorageError as error:
            return error.error_code
        return error_codes.NONE

    def mark(self, markers: WriteMarkers, coordinator_epoch: int, reply: Reply) -> None:
        """End a producer's transaction."""
        producer_id, epoch = markers.producer_id, markers.producer_epoch
        try:
            self.producers.check_marker(
                producer_id, epoch, coordinator_epoch, len(self.log), markers.transaction_version
            )
        except StorageError as error:
            reply(error.error_code)
            return
        self.verifications.end(producer_id)
        header = self._header(producer_id, epoch, -1, TRANSACTIONAL_MASK | CONTROL_MASK)
        self._write(Entry(header, marker=TransactionMarker(markers.commit, coordinator_epoch)))
        reply(error_codes.NONE)

    def _header(self, producer_id: int, epoch: int, sequence: int, attributes: int) -> BatchHeader:
        now_ms = self._network.now_ms
        return BatchHeader(len(self.log), 0, 0, 2, 0, attributes, 0, now_ms, now_ms, producer_id, epoch, sequence, 1)

    def _write(self, entry: Entry) -> None:
        self.log.append(entry)
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        header, _, marker = entry
        if marker is None:
            self.producers.apply(header, LogOffset(header.base_offset))
            return
        ended = self.producers.apply_marker(header, marker, header.max_timestamp)
        if ended is not None:
            self.producers.complete(ended)
            self.producers.replicated_to(header.base_offset + 1)

    @property
    def visible(self) -> list[int]:
        """The records that a reader of committed records sees, found from the log alone."""
        first_unstable = self.producers.first_unstable
        end = len(self.log) if first_unstable is None else first_unstable.offset
        pending: dict[int, list[tuple[int, int]]] = {}
        committed: list[tuple[int, int]] = []
        for header, value, marker in self.log:
            if marker is None:
                pending.setdefault(header.producer_id, []).append((header.base_offset, value))
            else:
                ended = pending.pop(header.producer_id, [])
                committed += ended if marker.committed else []
        return [value for offset, value in sorted(committed) if offset < end]
