"""The coordinator's host: its machine on a replicated log, crashes between any two writes, the way of the markers."""

from collections.abc import Callable
from typing import Any, Protocol

from simulated_network import Network

from kpybroker.machines.coordination.events import Loaded
from kpybroker.machines.journal import Journal, OutgoingRequest, ProducerEpoch
from kpybroker.machines.transactions.coordinator import TransactionCoordinator
from kpybroker.machines.transactions.events import (
    MarkersWritten,
    Partition,
    TransactionRequest,
    TransactionTimersDue,
    WriteMarkers,
)
from kpybroker.machines.transactions.record import TransactionRecord, decode
from kpybroker.machines.transactions.settings import TransactionSettings
from kpywire import error_codes

RETRY_MS = 300
LOAD_MS = 200
FENCED = (error_codes.INVALID_PRODUCER_EPOCH, error_codes.TRANSACTION_COORDINATOR_FENCED)


class Markable(Protocol):
    """A partition that takes markers."""

    def mark(self, markers: WriteMarkers, coordinator_epoch: int, reply: Callable[[int], None]) -> None: ...


class Ending:
    """A transaction whose partitions learn its outcome from one coordinator."""

    def __init__(self, coordinator_epoch: int, markers: WriteMarkers) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.markers = markers
        self.missing = set(markers.partitions)


class Ticket:
    """Passes on the answer, or an error code."""

    def __init__(self, reply: Callable[[Any], None]) -> None:
        self._reply = reply

    def answer(self, message: Any) -> None:
        self._reply(message)

    def fail(self, error_code: int) -> None:
        self._reply(error_code)


class SimulatedCoordinator:
    """One leader after the other, on one log."""

    def __init__(self, network: Network, settings: TransactionSettings) -> None:
        self.settings = settings
        self.partitions: dict[Partition, Markable] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.writes = 0
        self.crash_at_write = -1
        self.loses_write = False
        """Whether the write at which it crashes is lost."""
        self.epoch = 0
        self._network = network
        self._next_producer_id = 100
        self._committed = 0
        self._crash_due = False
        self._endings: dict[str, Ending] = {}
        self._load()

    def _load(self) -> None:
        self.epoch += 1
        self._endings = {}
        self._wake_at_ms: int | None = None
        self.machine = TransactionCoordinator(lambda: self.settings)
        self._journal = Journal(
            self.machine,
            self._append,
            closed_error=error_codes.COORDINATOR_LOAD_IN_PROGRESS,
            send=self._send,
            report=_raise,
        )
        self._network.later(LOAD_MS, self._open, self.epoch)

    def _open(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self._journal.replay(record, offset)
        self._journal.open(self._committed, len(self.log))
        self._network.later(self._network.rng.randrange(1, 30), self._replicated, self.epoch, len(self.log))
        self._tell(Loaded(self._network.now_ms))

    # Crashes

    def crash(self) -> None:
        """The leader is gone, and of what was not committed a part that nobody can know."""
        self._journal.drop(error_codes.NOT_COORDINATOR)
        kept = self._network.rng.randrange(self._committed, len(self.log) + 1)
        del self.log[kept:]
        self._committed = kept
        self._load()

    def crash_if_due(self) -> None:
        """Crash at the write at which it was to."""
        if self._crash_due:
            self._crash_due = False
            self._journal.drop(error_codes.NOT_COORDINATOR)
            if not self.loses_write:
                self._committed = len(self.log)
            del self.log[self._committed :]
            self._load()

    # The log

    def _append(self, records: Any, producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        assert producer is None
        first_offset = len(self.log)
        self.log += [record.encoded() for record in records]
        self._crash_due = self.writes == self.crash_at_write
        self.writes += 1
        self._network.later(self._network.rng.randrange(1, 30), self._replicated, self.epoch, len(self.log))
        return first_offset, len(self.log)

    def _replicated(self, epoch: int, end: int) -> None:
        if epoch == self.epoch:
            self._committed = max(self._committed, end)
            self._journal.committed(self._committed, self._network.now_ms)
            self._set_timer()

    # Inputs

    def request(self, message: Any, api_version: int, reply: Callable[[Any], None]) -> None:
        """Ask the leader of today; the answer is its response, or an error code."""
        self._next_producer_id += 1
        ticket = Ticket(reply)
        event = TransactionRequest(ticket, message, api_version, self._network.now_ms, self._next_producer_id)
        self._journal.submit(event, self._network.now_ms, ticket=ticket, key=message.transactional_id)
        self._set_timer()

    def _tell(self, event: Any, key: str | None = None) -> None:
        self._journal.submit(event, self._network.now_ms, key=key)
        self._set_timer()

    def _set_timer(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None and (self._wake_at_ms is None or deadline_ms < self._wake_at_ms):
            self._wake_at_ms = deadline_ms
            self._network.later(max(deadline_ms - self._network.now_ms, 0), self._wake, self.epoch, deadline_ms)

    def _wake(self, epoch: int, at_ms: int) -> None:
        if epoch == self.epoch and at_ms == self._wake_at_ms:
            self._wake_at_ms = None
            self._next_producer_id += 1
            self._tell(TransactionTimersDue(self._network.now_ms, self._next_producer_id))

    # Markers

    def _send(self, send: OutgoingRequest) -> None:
        ending = Ending(self.epoch, send.message)
        self._endings[ending.markers.transactional_id] = ending
        for partition in ending.markers.partitions:
            self._mark(ending, partition)

    def _is_pursued(self, ending: Ending, partition: Partition) -> bool:
        return self._endings.get(ending.markers.transactional_id) is ending and partition in ending.missing

    def _mark(self, ending: Ending, partition: Partition) -> None:
        """Try until it is written, or somebody else decides; at times twice at once."""
        if not self._is_pursued(ending, partition):
            return
        network = self._network
        for _ in range(1 if network.is_calm or network.rng.random() > 0.15 else 2):
            network.deliver(self._arrive, ending, partition)
        network.later(RETRY_MS, self._mark, ending, partition)

    def _arrive(self, ending: Ending, partition: Partition) -> None:
        """A marker reaches its partition. In the second generation, how often and how late does not matter.

        In the first, one that comes again when its transaction has ended would end the next one of the same epoch too:
        what KIP-890 is for. There, a connection has to keep what is sent twice from coming so late.
        """
        if ending.markers.transaction_version >= 2 or partition in ending.missing:
            network = self._network
            self.partitions[partition].mark(
                ending.markers,
                ending.coordinator_epoch,
                lambda code: network.deliver(self._marked, ending, partition, code),
            )

    def _marked(self, ending: Ending, partition: Partition, code: int) -> None:
        if not self._is_pursued(ending, partition):
            return
        markers = ending.markers
        if code in FENCED:
            del self._endings[markers.transactional_id]
        elif code == error_codes.NONE:
            ending.missing.discard(partition)
            written = MarkersWritten(
                markers.transactional_id, markers.producer_id, markers.producer_epoch, [partition], self._network.now_ms
            )
            self._tell(written, markers.transactional_id)

    @property
    def records(self) -> list[TransactionRecord]:
        return [record for key, value in self.log if (record := decode(key, value)) is not None]


def _raise(failed: Exception) -> None:
    raise failed from failed.__cause__
