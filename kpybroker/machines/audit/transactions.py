"""Whether every decided transaction is whole: the coordinator's decisions against the markers in each partition. Pure.

A coordinator writes its decision to ``__transaction_state``, has a marker written to each partition of the transaction,
and notes that the transaction is complete. So a complete one has its marker in every partition. One that is
decided but not complete is still being written, and is only counted.

Decisions have to be read before the ends of the other partitions are taken: then the markers of those that are complete
lie below these ends.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kpybroker.machines.audit.findings import DAMAGE, NOTE, TRANSACTIONS, AuditFinding, BytePlace
from kpybroker.machines.audit.sources import TRANSACTIONS_TOPIC, Spot
from kpybroker.machines.audit.stretch import Open, SeenMarker, Stretch
from kpybroker.machines.transactions.record import decode
from kpybroker.machines.transactions.transaction import EPOCH_BUMP_VERSION, Transaction, TransactionState
from kpywire.errors import Malformed
from kpywire.record import Record

SKEW_MS: Final = 60_000
"""The difference of clocks between brokers that is allowed for where only times can tell markers apart."""
_ENDED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class TransactionOutcome(NamedTuple):
    """The outcome of a transaction, as its coordinator wrote it at ``offset`` of a partition of its log."""

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool
    partitions: frozenset[Spot]
    start_ms: int
    update_ms: int
    has_own_epoch: bool
    """Whether no other transaction has this producer id and epoch."""
    log_partition: int
    offset: int
    completed_at: int = -1
    """The offset where it was noted as complete; -1 while it is not."""


class CoordinatorDecisions(NamedTuple):
    """All that the coordinators' logs say."""

    complete: list[TransactionOutcome]
    pending: list[TransactionOutcome]
    ongoing: Mapping[int, Transaction]
    """The last state of each producer id whose transaction is open or being ended."""
    last: Mapping[int, tuple[int, int]]
    """The last record of each producer id: the partition of the coordinators' log, and the offset."""


def read_decisions(log_partition: int, records: Iterable[Record]) -> CoordinatorDecisions:
    """The decisions in a partition of ``__transaction_state``. Records that are none are passed over."""
    complete: list[TransactionOutcome] = []
    pending: dict[str, TransactionOutcome] = {}
    states: dict[str, Transaction | None] = {}
    last: dict[int, tuple[int, int]] = {}
    for record in records:
        try:
            found = decode(record.key or b"", record.value)
        except Malformed:
            continue
        if found is None:
            continue
        name, state = found.transactional_id, found.transaction
        states[name] = state
        if state is not None:
            last[state.producer_id] = log_partition, record.offset
        if state is not None and state.is_prepared:
            pending[name] = _decision(name, state, log_partition, record.offset)
        elif name in pending:
            complete.append(pending.pop(name)._replace(completed_at=record.offset))
    ongoing = {
        state.producer_id: state
        for state in states.values()
        if state is not None and (state.is_prepared or state.state is TransactionState.ONGOING)
    }
    return CoordinatorDecisions(complete, list(pending.values()), ongoing, last)


def _decision(name: str, state: Transaction, log_partition: int, offset: int) -> TransactionOutcome:
    return TransactionOutcome(
        name,
        state.producer_id,
        state.producer_epoch,
        state.state is TransactionState.PREPARE_COMMIT,
        state.partitions,
        state.start_ms,
        state.last_update_ms,
        state.client_version >= EPOCH_BUMP_VERSION,
        log_partition,
        offset,
    )


class AuditedLog(NamedTuple):
    """A partition that transactions write to, as its best replica shows it."""

    replica: str
    whole: Stretch
    log_start: int
    cleaned_to: int
    place: BytePlace = BytePlace()
    beyond: tuple[SeenMarker, ...] = ()
    """The markers above the high watermark on disk, which brokers write every few seconds, and not all at once."""


class Judged(NamedTuple):
    """The result of comparing decisions with markers."""

    whole: int
    torn: int
    pending: int
    findings: list[AuditFinding]


def judge(decisions: CoordinatorDecisions, logs: Mapping[Spot, AuditedLog]) -> Judged:
    """Compare the complete decisions with the markers. Partitions that are not in ``logs`` are passed over."""
    torn: dict[tuple[str, int], list[AuditFinding]] = {}
    by_spot: dict[Spot, dict[tuple[int, int], list[TransactionOutcome]]] = {}
    for each in decisions.complete:
        for spot in each.partitions:
            if spot in logs:
                by_spot.setdefault(spot, {}).setdefault((each.producer_id, each.epoch), []).append(each)
    for spot, wanted in by_spot.items():
        log = logs[spot]
        markers: dict[tuple[int, int], list[SeenMarker]] = {}
        for marker in (*log.whole.listed_markers(), *log.beyond):
            if (marker.producer_id, marker.epoch) in wanted:
                markers.setdefault((marker.producer_id, marker.epoch), []).append(marker)
        for key, made in wanted.items():
            for decision, text in _missing(made, markers.get(key, []), log):
                place = (decision.log_partition, decision.offset)
                torn.setdefault((decision.transactional_id, place[1]), []).append(_torn(decision, spot, log, text))
    findings = [finding for several in torn.values() for finding in several]
    judged = sum(any(spot in logs for spot in each.partitions) for each in decisions.complete)
    return Judged(judged - len(torn), len(torn), len(decisions.pending), findings)


def _missing(
    made: list[TransactionOutcome], markers: list[SeenMarker], log: AuditedLog
) -> Iterator[tuple[TransactionOutcome, str]]:
    """The decisions without their marker in a partition, each with what is there instead.

    One producer id and epoch may have made several transactions before version 2; they follow one another, so their
    markers lie between the times of their decisions.
    """
    begun = log.whole.open.get(made[0].producer_id)
    is_seen = begun is not None and begun.first_offset >= log.whole.last_gap
    if log.cleaned_to or log.log_start or (log.whole.last_gap >= 0 and not is_seen):
        return  # markers may have been compacted away, deleted or damaged
    made = [each for each in made if 0 <= log.whole.first_timestamp <= each.update_ms + SKEW_MS]
    for committed in (True, False):
        wanted = [each for each in made if each.committed is committed]
        there = [each for each in markers if each.committed is committed]
        if not wanted or (len(there) >= len(wanted) and wanted[0].has_own_epoch):
            continue
        there = [each for each in there if each.timestamp >= wanted[0].update_ms - SKEW_MS]
        lacking = len(wanted) - len(there)
        for index, decision in enumerate(wanted):
            following = wanted[index + 1].start_ms if index + 1 < len(wanted) else decision.update_ms + (1 << 60)
            is_there = any(decision.update_ms - 1 <= each.timestamp <= following + 1 for each in there)
            if lacking > 0 and not (is_there and len(wanted) > 1):
                lacking -= 1
                others = [each for each in markers if each.committed is not committed]
                yield decision, f"; a marker at offset {others[-1].offset} says otherwise" if others else ""


def _torn(decision: TransactionOutcome, spot: Spot, log: AuditedLog, text: str) -> AuditFinding:
    begun = log.whole.open.get(decision.producer_id)
    held = "" if begun is None else f"; its records from offset {begun.first_offset} on have no end"
    offset = decision.offset if begun is None else begun.first_offset
    reported = (
        f"transaction of {decision.transactional_id} is torn: producer {decision.producer_id}, epoch {decision.epoch}, "
        f"{'committed' if decision.committed else 'aborted'} at {time_text(decision.update_ms)} (offset "
        f"{decision.offset} of {TRANSACTIONS_TOPIC}-{decision.log_partition}), has no marker here{held}{text}"
    )
    return AuditFinding(DAMAGE, TRANSACTIONS, *spot, log.replica, *log.place, offset, reported)


def hanging(
    spot: Spot,
    log: AuditedLog,
    before: CoordinatorDecisions | None,
    after: CoordinatorDecisions | None,
    torn: Iterable[AuditFinding],
) -> Iterator[AuditFinding]:
    """The open transactions of a partition that no coordinator knows of, before the log was read and after.

    ``before`` and ``after`` are None where the coordinators' logs were not read.
    """
    reported_offsets = {finding.offset for finding in torn if (finding.topic, finding.partition) == spot}
    ended = {marker.producer_id for marker in log.beyond}
    for producer_id, begun in sorted(log.whole.open.items()):
        if producer_id in ended:
            continue
        if begun.first_offset in reported_offsets or begun.first_offset < max(log.cleaned_to, log.whole.last_gap):
            continue  # its end may have been compacted away, or be missing for another reason
        if before is None or after is None:
            yield _hanging(NOTE, spot, log, producer_id, begun, "is open; the coordinators' logs were not read")
        elif producer_id not in before.ongoing and not _is_alive(before, after, producer_id):
            yield _hanging(DAMAGE, spot, log, producer_id, begun, "hangs: its coordinator has no open transaction")


def _is_alive(before: CoordinatorDecisions, after: CoordinatorDecisions, producer_id: int) -> bool:
    """Whether the coordinator has written something about the producer since the log's end was taken, or will do so."""
    return producer_id in after.ongoing or before.last.get(producer_id) != after.last.get(producer_id)


def _hanging(level: str, spot: Spot, log: AuditedLog, producer_id: int, begun: Open, text: str) -> AuditFinding:
    reported = (
        f"transaction of producer {producer_id}, epoch {begun.epoch}, from offset {begun.first_offset} "
        f"({time_text(begun.timestamp)}) {text}"
    )
    return AuditFinding(level, TRANSACTIONS, *spot, log.replica, *log.place, begun.first_offset, reported)


def time_text(milliseconds: int) -> str:
    """A time of Kafka's records in ISO 8601; the number where it is no time."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
