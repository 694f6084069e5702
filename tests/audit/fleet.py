"""Generated clusters: the directories of three brokers in memory, with transactions, producers and groups."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import NamedTuple

from log_making import NOW_MS, TOPIC_ID, append, headers_of, make_batch, make_marker

from kpybroker.machines.audit.tables import TableRange
from kpybroker.machines.groups import record as group_record
from kpybroker.machines.transactions import record as transaction_record
from kpybroker.machines.transactions.transaction import Transaction, TransactionState
from kpybroker.pipeline.audit.directories import AuditedDirectories
from kpystorage import checkpoint, names
from kpystorage.control_batches import transaction_marker
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpystorage.meta_properties import MetaProperties, render
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.record import Record, build_batch

Spot = tuple[str, int]
DATA: tuple[Spot, ...] = (("orders", 0), ("orders", 1), ("events", 0))
STATE: tuple[Spot, ...] = (("__transaction_state", 0), ("__transaction_state", 1), ("__consumer_offsets", 0))
BROKERS = (1, 2, 3)


class Ongoing(NamedTuple):
    """An open transaction: its name, producer and epoch, where it writes, and when it began."""

    name: str
    producer_id: int
    epoch: int
    spots: tuple[Spot, ...]
    start_ms: int


class Decided(NamedTuple):
    """A transaction that was ended."""

    ongoing: Ongoing
    committed: bool


class History:
    """The batches of a cluster's partitions, made step by step. ``torn`` is the number of a transaction that lacks its
    marker in one partition, ``skip`` the number of a producer's batch before which sequences are skipped."""

    def __init__(self, seed: int, steps: int = 60, *, torn: int = -1, skip: int = -1) -> None:
        self.rng = Random(seed)
        self.batches: dict[Spot, list[bytes]] = {spot: [] for spot in (*DATA, *STATE)}
        self.ends: dict[Spot, int] = dict.fromkeys(self.batches, 0)
        self.decided: list[Decided] = []
        self.committed_positions: dict[Spot, int] = {}
        self.torn_at: tuple[Spot, Ongoing] | None = None
        self.skipped_at: tuple[Spot, int] | None = None
        self._torn, self._skip = torn, skip
        self._now_ms = NOW_MS
        self._epoch = 0
        self._sequences: dict[tuple[Spot, int, int], int] = {}
        self._epochs = dict.fromkeys(("a", "b", "c"), 0)
        self._open: dict[str, Ongoing] = {}
        self._sent = 0
        self.half: dict[Spot, int] = {}
        """The number of batches that each partition had when half of the history was made."""
        for number in range(steps):
            if number == steps // 2:
                self.half = {spot: len(batches) for spot, batches in self.batches.items()}
            self._step()
        for name in list(self._open):
            if self.rng.random() < 0.8:
                self._end(name)

    def _step(self) -> None:
        rng = self.rng
        self._now_ms += rng.randint(1, 50)
        kind = rng.random()
        if kind < 0.02:
            self._epoch += 1
        elif kind < 0.2:
            self._append(rng.choice(DATA))
        elif kind < 0.5:
            self._send(rng.choice(DATA), rng.choice((1, 2)), 0, transactional=False)
        elif kind < 0.6:
            self._commit_position(rng.choice(DATA))
        elif self._open and kind < 0.75:
            self._end(rng.choice(sorted(self._open)))
        else:
            name = rng.choice(sorted(self._epochs))
            if name not in self._open:
                self._begin(name)
            ongoing = self._open[name]
            self._send(rng.choice(ongoing.spots), ongoing.producer_id, ongoing.epoch, transactional=True)

    def _append(self, spot: Spot) -> None:
        batch = make_batch(
            self.ends[spot],
            self.rng.randint(1, 5),
            value_bytes=self.rng.randint(20, 200),
            timestamp=self._now_ms,
            leader_epoch=self._epoch,
        )
        self._take(spot, batch)

    def _take(self, spot: Spot, batch: bytes) -> None:
        self.batches[spot].append(batch)
        self.ends[spot] = headers_of(batch)[-1].next_offset

    def _send(self, spot: Spot, producer_id: int, epoch: int, *, transactional: bool) -> None:
        key = (spot, producer_id, epoch)
        sequence = self._sequences.get(key, 0)
        if self._sent == self._skip and sequence:
            self.skipped_at = (spot, self.ends[spot])
            sequence += 3
        elif self._sent == self._skip:
            self._skip += 1  # the first batch of a producer skips nothing
        self._sent += 1
        count = self.rng.randint(1, 5)
        batch = make_batch(
            self.ends[spot],
            count,
            value_bytes=self.rng.randint(20, 200),
            timestamp=self._now_ms,
            leader_epoch=self._epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        self._sequences[key] = sequence + count
        self._take(spot, batch)

    def _commit_position(self, spot: Spot, offset: int | None = None) -> None:
        committed = self.rng.randint(0, self.ends[spot]) if offset is None else offset
        self.committed_positions[spot] = committed
        value = OffsetCommitValue(offset=committed, leader_epoch=-1, metadata="", commit_timestamp=self._now_ms)
        key = OffsetCommitKey(group="g", topic=spot[0], partition=spot[1])
        self._write_state(("__consumer_offsets", 0), *group_record.GroupRecord(key, value, 4).encoded())

    def commit_beyond(self, spot: Spot) -> None:
        """Have the group commit an offset that the log does not have."""
        self._commit_position(spot, self.ends[spot] + 1)

    def _write_state(self, spot: Spot, key: bytes, value: bytes | None) -> None:
        record = Record(timestamp=self._now_ms, key=key, value=value)
        self._take(spot, build_batch([record], base_offset=self.ends[spot], partition_leader_epoch=self._epoch))

    # Transactions.

    def _begin(self, name: str) -> None:
        spots = tuple(sorted(self.rng.sample(DATA, self.rng.randint(1, len(DATA)))))
        ongoing = Ongoing(name, 1000 + ord(name), self._epochs[name], spots, self._now_ms)
        self._open[name] = ongoing
        self._note(ongoing, TransactionState.ONGOING, ongoing.epoch)
        for spot in spots:
            self._send(spot, ongoing.producer_id, ongoing.epoch, transactional=True)

    def _note(self, ongoing: Ongoing, state: TransactionState, epoch: int) -> None:
        is_complete = state in (TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT)
        partitions = frozenset() if is_complete else frozenset(ongoing.spots)
        transaction = Transaction(
            ongoing.producer_id, epoch, 60_000, state, partitions, self._now_ms, ongoing.start_ms, client_version=2
        )
        log = ("__transaction_state", ord(ongoing.name) % 2)
        self._write_state(log, *transaction_record.TransactionRecord(ongoing.name, transaction).encoded())

    def _end(self, name: str) -> None:
        ongoing = self._open.pop(name)
        commit = self.rng.random() < 0.7 or len(self.decided) == self._torn
        epoch = self._epochs[name] = ongoing.epoch + 1
        self._note(ongoing, TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, epoch)
        lacking = self.rng.choice(ongoing.spots) if len(self.decided) == self._torn else None
        for spot in ongoing.spots:
            if spot == lacking:
                self.torn_at = (spot, ongoing)
                continue
            self._take(
                spot,
                make_marker(
                    self.ends[spot],
                    ongoing.producer_id,
                    commit=commit,
                    producer_epoch=epoch,
                    leader_epoch=self._epoch,
                    timestamp=self._now_ms,
                ),
            )
        self._note(ongoing, TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT, epoch)
        self.decided.append(Decided(ongoing, commit))

    # What a consumer sees.

    def rows(self, spot: Spot) -> list[int]:
        """The offsets of the committed records of a partition."""
        pending: dict[int, list[int]] = {}
        rows: list[int] = []
        for batch in self.batches[spot]:
            (header,) = headers_of(batch)
            offsets = list(range(header.base_offset, header.next_offset))
            if header.is_control:
                held = pending.pop(header.producer_id, [])
                rows += held if _commits(batch) else []
            elif header.is_transactional:
                pending.setdefault(header.producer_id, []).extend(offsets)
            else:
                rows += offsets
        return sorted(rows)

    def table(self, spot: Spot, name: str = "lake.t") -> list[TableRange]:
        """The ranges of a table that has all committed records of a partition, in commits of random sizes."""
        rows, end = self.rows(spot), self.ends[spot]
        cuts = sorted({0, end, *(self.rng.randint(0, end) for _ in range(4))})
        return [
            TableRange(name, *spot, first, last, sum(first <= row < last for row in rows))
            for first, last in pairwise(cuts)
        ]


def _commits(marker: bytes) -> bool:
    (header,) = headers_of(marker)
    found = transaction_marker(header, marker, 0)
    return found is not None and found.committed


class Fleet:
    """The directories of three brokers with a history, cleanly stopped. ``changed`` has other batches for a broker."""

    def __init__(
        self,
        history: History,
        changed: dict[tuple[int, Spot], list[bytes]] | None = None,
        *,
        half: bool = False,
    ) -> None:
        self.history = history
        self.disk = MemoryDisk()
        for broker in BROKERS:
            path = self.path(broker)
            self.disk.make_directory(path)
            properties = MetaProperties("cluster", broker, bytes([broker] * 16))
            self.disk.write(f"{path}/{names.META_PROPERTIES}", render(properties), synchronize=False)
            self._fill(broker, path, changed or {}, half=half)

    def go_on(self) -> None:
        """Append the second half of the history."""
        for broker in BROKERS:
            self._fill(broker, self.path(broker), {}, half=False)

    @staticmethod
    def path(broker: int) -> str:
        return f"/broker-{broker}"

    def directory(self, broker: int, spot: Spot) -> str:
        return f"{self.path(broker)}/{spot[0]}-{spot[1]}"

    def source(self) -> AuditedDirectories:
        """The source of an audit."""
        return AuditedDirectories([self.path(broker) for broker in BROKERS], self.disk)

    def _fill(self, broker: int, path: str, changed: dict[tuple[int, Spot], list[bytes]], *, half: bool) -> None:
        config = LogConfig(segment_bytes=Random(broker).choice((1500, 4000, 9000)), index_interval_bytes=200)
        directory = LogDirectory(path, self.disk, Random(7), lambda _line: None, config)
        directory.open(NOW_MS)
        for _ in directory.recover():
            pass
        ends = {}
        for spot, batches in self.history.batches.items():
            log = directory.logs.get(spot) or directory.create_log(*spot, TOPIC_ID, config, NOW_MS)
            for batch in changed.get((broker, spot), batches[: self.history.half[spot] if half else None]):
                if headers_of(batch)[0].base_offset >= log.open().end.offset:
                    append(log, batch)
            ends[spot] = log.end.offset if half else self.history.ends[spot]
        directory.close()
        marks = checkpoint.render_offsets(ends)
        self.disk.write(f"{path}/{names.HIGH_WATERMARKS}", marks, synchronize=False)

    def files(self, broker: int, spot: Spot, suffix: str) -> list[str]:
        """The files of a replica with this suffix, in order."""
        directory = self.directory(broker, spot)
        return [f"{directory}/{name}" for name in sorted(self.disk.list_directory(directory)) if name.endswith(suffix)]

    def change(self, path: str, data: bytes) -> None:
        """Replace the content of a file."""
        self.disk.write(path, data, synchronize=False)


def batches_in(data: bytes) -> Iterable[tuple[int, int]]:
    """(position, size) of the batches in the bytes of a segment."""
    position = 0
    for header in headers_of(data):
        yield position, header.size
        position += header.size
