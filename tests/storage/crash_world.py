"""A log directory under a generated workload on a disk that dies at some call, and what must be true afterwards.

The model knows, per log, every batch that was ever handed to it and the offset up to which it was promised to last.
"""

from random import Random

from crashing import blank_disk
from log_making import NOW_MS, PATH, TOPIC_ID, append, headers_of, make_batch, make_marker, open_directory

from kpystorage import names
from kpystorage.control_batches import apply_producer
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.log_offset import LogOffset
from kpystorage.producer_states import ProducerStates
from kpystorage.scan import batches, headers
from kpystorage.segment import Segment
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.batch import check_crc

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300, segment_index_bytes=200, retention_ms=-1)
LOGS = 2


class Model:
    """The contents that one log may and must have."""

    def __init__(self) -> None:
        self.handed_over: dict[int, set[bytes]] = {}
        self.current: list[tuple[int, bytes]] = []
        self.promised_end = 0
        self.acknowledged_end = 0
        self.log_start = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()

    def cut(self, offset: int) -> None:
        """A truncation begins."""
        self.current = [(at, data) for at, data in self.current if headers_of(data)[-1].next_offset <= offset]
        kept_end = headers_of(self.current[-1][1])[-1].next_offset if self.current else 0
        self.promised_end = min(self.promised_end, kept_end)
        self.acknowledged_end = min(self.acknowledged_end, kept_end)
        self.epoch += 1


class World:
    """The workload; ``run`` goes on until the disk dies or the operations are over."""

    def __init__(self, seed: int, operations: int, logs: int = LOGS) -> None:
        self.rng = Random(seed)
        self.logs = logs
        self.operations = operations
        self.config = CONFIG._replace(preallocate=seed % 3 == 2)
        self.disk = blank_disk(seed + 1, PATH)
        self.models = [Model() for _ in range(logs)]
        self.directory: LogDirectory

    def run(self) -> None:
        self.directory = open_directory(self.disk, config=self.config)
        for partition in range(self.logs):
            self.directory.create_log("t", partition, TOPIC_ID, self.config, NOW_MS)
        for _ in range(self.operations):
            partition = self.rng.randrange(self.logs)
            self._one(self.models[partition], self.directory.logs["t", partition].open())

    def _one(self, model: Model, log: Log) -> None:
        choice = self.rng.random()
        if choice < 0.70:
            self._append(model, log)
        elif choice < 0.82:
            end = log.end.offset
            log.flush()
            model.promised_end = end
        elif choice < 0.89:
            self.directory.write_checkpoint(names.RECOVERY_POINTS, self.directory.render_recovery_points())
            self.directory.noted()
        elif choice < 0.93 and log.end.offset > log.log_start_offset:
            offset = self.rng.randint(log.log_start_offset, log.end.offset)
            model.cut(offset)
            model.sequences = {}
            model.open_transactions = set()
            log.truncate_to(offset, NOW_MS)
        elif choice < 0.97:
            self._shorten(model, log)
        elif choice < 0.985:
            self.directory.abandon()  # the process dies and the next one goes on, log by log
            self.directory = open_directory(self.disk, config=self.config)
        else:
            self.directory.close()
            for each in self.models:
                each.promised_end = each.acknowledged_end
            self.directory = open_directory(self.disk, config=self.config)

    def _shorten(self, model: Model, log: Log) -> None:
        model.log_start = self.rng.randint(log.log_start_offset, log.end.offset)
        log.advance_log_start(model.log_start)
        log.delete_old_segments(NOW_MS, log.end.offset)
        self.directory.write_checkpoint(names.LOG_STARTS, self.directory.render_log_starts())

    def _append(self, model: Model, log: Log) -> None:
        offset = log.end.offset
        producer = self.rng.choice([-1, -1, 1, 2, 3])
        count = self.rng.randint(1, 4)
        if producer in model.open_transactions and self.rng.random() < 0.4:
            commit = self.rng.random() < 0.5
            data = make_marker(offset, producer, commit=commit, leader_epoch=model.epoch, producer_epoch=model.epoch)
            model.open_transactions.discard(producer)
        else:
            data = make_batch(
                offset,
                count,
                value_bytes=self.rng.randint(10, 200),
                timestamp=NOW_MS + self.rng.randint(0, 1000),
                leader_epoch=model.epoch,
                producer_id=producer,
                producer_epoch=model.epoch,
                base_sequence=model.sequences.get(producer, 0),
                transactional=producer > 1,
            )
            model.sequences[producer] = model.sequences.get(producer, 0) + count
            if producer > 1:
                model.open_transactions.add(producer)
        model.handed_over.setdefault(offset, set()).add(data)
        append(log, data)
        model.current.append((offset, data))
        model.acknowledged_end = log.end.offset


def contents(log: Log) -> list[tuple[int, bytes]]:
    """(base offset, bytes) of every batch in the files of a log."""
    return [
        (header.base_offset, bytes(data))
        for segment in log.segments
        for _, header, data in batches(segment.log, 0, segment.size)
    ]


def check_kept(model: Model, log: Log, kept_end: int) -> None:
    """Nothing but what was handed over is there, in order; and all of it below ``kept_end``."""
    found = contents(log)
    expected_offset = 0
    for offset, data in found:
        assert data in model.handed_over.get(offset, ()), f"a batch at {offset} that nobody wrote"
        assert offset == expected_offset or not expected_offset, "a gap, or two batches at one offset"
        expected_offset = headers_of(data)[0].next_offset
    assert log.end.offset == expected_offset or not found
    there = dict(found)
    for offset, data in model.current:
        if offset >= model.log_start and headers_of(data)[0].next_offset <= kept_end:
            assert there.get(offset) == data, f"the batch at {offset} is lost; kept must be all below {kept_end}"


def check_derived(log: Log) -> None:
    """Producers, epochs and indexes are what the batches say."""
    expected = ProducerStates("expected")
    aborted = []
    for segment in log.segments:
        for position, header, data in batches(segment.log, 0, segment.size):
            assert check_crc(data, header)
            if header.base_offset >= log.log_start_offset:
                assert log.epochs.epoch_for(header.base_offset) == header.partition_leader_epoch
            if header.has_producer_id:
                place = LogOffset(header.base_offset, segment.base_offset, position)
                ended = apply_producer(expected, header, data, 0, place)
                if ended is not None:
                    if not ended.committed:
                        stable = expected.last_stable_offset_after(ended)
                        aborted.append(
                            TransactionIndexEntry(ended.producer_id, ended.first_offset, ended.last_offset, stable)
                        )
                    expected.complete(ended)
        check_indexes(segment)
    assert all(start <= log.end.offset for _, start in log.epochs.entries())
    check_producers(log, expected)
    if log.segments[0].base_offset == 0 == log.log_start_offset:
        assert [entry for segment in log.segments for entry in segment.transaction_index.entries()] == aborted


def check_producers(log: Log, expected: ProducerStates) -> None:
    whole = log.segments[0].base_offset == 0 and log.log_start_offset == 0
    assert whole is False or set(log.producers.producers) == set(expected.producers)
    for producer_id, state in expected.producers.items():
        found = log.producers.producers.get(producer_id)
        if found is None:
            assert not whole
            assert not state.batches or state.batches[-1].last_offset < log.log_start_offset
            continue
        assert (found.epoch, found.last_timestamp) == (state.epoch, state.last_timestamp)
        assert state.batches or not whole or not found.batches
        if state.batches and (found.batches or state.batches[-1].last_offset >= log.log_start_offset):
            # Of a snapshot a batch has the time of what its producer did last, which may have been a marker.
            assert [batch[:4] for batch in found.batches[-1:]] == [batch[:4] for batch in state.batches[-1:]]
        if whole:
            assert found.transaction_first_offset == state.transaction_first_offset
            assert found.coordinator_epoch == state.coordinator_epoch
    if whole:
        for states in (expected, log.producers):
            states.replicated_to(log.end.offset + 1)
        unstable, found_unstable = expected.first_unstable, log.producers.first_unstable
        assert (unstable and unstable.offset) == (found_unstable and found_unstable.offset)


def check_indexes(segment: Segment) -> None:
    """Every entry points at a batch, and no record up to a time entry's offset is later than its timestamp."""
    walked = list(headers(segment.log, 0, segment.size))
    by_position = dict(walked)
    for number in range(len(segment.offset_index)):
        offset, position = segment.offset_index.entry(number)
        assert by_position[position].last_offset == offset
    for number in range(len(segment.time_index)):
        timestamp, offset = segment.time_index.entry(number)
        assert timestamp == max(header.max_timestamp for _, header in walked if header.last_offset <= offset)
