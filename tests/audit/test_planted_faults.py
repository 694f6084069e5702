"""An audit finds every planted fault, at its place, and nothing else."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import pytest
from fleet import BROKERS, DATA, Fleet, History, batches_in
from log_making import headers_of, make_batch

from kpybroker.machines.audit.findings import DAMAGE, AuditFinding
from kpybroker.machines.audit.running import AuditScope, Result, audit
from kpybroker.machines.audit.sources import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, AuditedReplica, AuditOutcome, AuditTask
from kpybroker.machines.audit.tables import TableRange
from kpybroker.pipeline.audit.directories import AuditedDirectories
from kpybroker.pipeline.audit.mapping import in_processes
from kpystorage import names

SEEDS = 5


def audited(fleet: Fleet, ranges: Iterable[TableRange] = (), *, deep: bool = False) -> Result:
    wanted = AuditScope(ranges=tuple(ranges), deep=deep)
    return audit(fleet.source(), wanted, in_processes(1), lambda _size: None, lambda _size: None)


def damages(result: Result) -> list[AuditFinding]:
    return [finding for finding in result.findings if finding.level == DAMAGE]


def the_only(result: Result) -> AuditFinding:
    found = damages(result)
    assert len(found) == 1, [each.line for each in found]
    return found[0]


@pytest.mark.seeds(0, SEEDS)
def test_a_whole_cluster_has_no_finding(seed: int) -> None:
    history = History(seed)
    fleet = Fleet(history)
    result = audited(fleet, history.table(("orders", 0)), deep=seed % 2 == 1)
    assert damages(result) == []
    assert result.equal == result.compared == len(history.batches)
    assert result.whole_transactions == len(history.decided)
    headers = [headers_of(batch)[0] for batches in history.batches.values() for batch in batches]
    assert result.records == sum(header.record_count for header in headers)


@pytest.mark.seeds(10000, SEEDS)
def test_a_flipped_bit_of_any_batch_is_found_at_its_batch(seed: int) -> None:
    rng = Random(seed)
    fleet = Fleet(History(seed))
    broker, spot = rng.choice(BROKERS), rng.choice(DATA)
    path = rng.choice([path for path in fleet.files(broker, spot, names.LOG) if fleet.disk.read(path)])
    data = bytearray(fleet.disk.read(path))
    position, size = rng.choice(list(batches_in(bytes(data))))
    base = headers_of(bytes(data[position : position + size]))[0].base_offset
    bit = rng.randrange(8 * size)
    data[position + bit // 8] ^= 1 << bit % 8
    fleet.change(path, bytes(data))
    result = audited(fleet)
    found = the_only(result)
    assert (found.topic, found.partition, found.replica) == (*spot, f"broker {broker}"), found.line
    assert found.path == path or found.claim == "epochs"
    assert result.equal == result.compared - (found.claim != "epochs")
    assert found.offset == base
    assert found.byte == position or found.claim == "epochs"


@pytest.mark.seeds(20000, SEEDS)
def test_a_lost_batch_is_found(seed: int) -> None:
    rng = Random(seed)
    history = History(seed)
    broker, spot = rng.choice(BROKERS), rng.choice(DATA)
    batches = list(history.batches[spot])
    lost = batches.pop(rng.randrange(len(batches) - 1))
    result = audited(Fleet(history, {(broker, spot): batches}))
    found = the_only(result)
    assert (found.claim, found.topic, found.partition) == ("offsets", *spot)
    assert result.equal == result.compared - 1
    assert (found.replica, found.offset) == (f"broker {broker}", headers_of(lost)[0].base_offset)
    assert "lost" in found.text


@pytest.mark.seeds(30000, SEEDS)
def test_a_batch_that_no_replica_has_any_more_is_one_finding(seed: int) -> None:
    rng = Random(seed)
    history = History(seed)
    spot = rng.choice(DATA)
    batches = history.batches[spot]
    plain = [index for index, batch in enumerate(batches[:-1]) if headers_of(batch)[0].producer_id < 0]
    if not plain:
        pytest.skip("this history has no batch without a producer in the partition")
    lost = batches.pop(rng.choice(plain))
    found = the_only(audited(Fleet(history)))
    assert (found.claim, found.offset) == ("offsets", headers_of(lost)[0].base_offset)
    assert found.replica == "broker 1, broker 2, broker 3"


@pytest.mark.seeds(40000, SEEDS)
def test_a_torn_transaction_is_named(seed: int) -> None:
    history = History(seed, steps=90, torn=Random(seed).randrange(2))
    assert history.torn_at is not None
    spot, ongoing = history.torn_at
    result = audited(Fleet(history))
    found = the_only(result)
    assert (found.claim, found.topic, found.partition) == ("transactions", *spot)
    assert f"transaction of {ongoing.name} is torn: producer {ongoing.producer_id}" in found.text
    assert result.torn_transactions == 1
    assert result.whole_transactions == len(history.decided) - 1


@pytest.mark.seeds(50000, SEEDS)
def test_a_replica_that_differs_is_found_down_to_the_byte(seed: int) -> None:
    rng = Random(seed)
    history = History(seed)
    broker, spot = rng.choice(BROKERS), rng.choice(DATA)
    batches = list(history.batches[spot])
    index = rng.choice([i for i, b in enumerate(batches) if headers_of(b)[0].producer_id < 0] or [-1])
    if index < 0:
        pytest.skip("this history has no batch without a producer in the partition")
    (header,) = headers_of(batches[index])
    size = (header.size - 61) // header.record_count
    other = make_batch(
        header.base_offset,
        header.record_count,
        value_bytes=size + 3,
        timestamp=header.base_timestamp,
        leader_epoch=header.partition_leader_epoch,
    )
    batches[index] = other
    found = the_only(audited(Fleet(history, {(broker, spot): batches})))
    assert (found.claim, found.topic, found.partition, found.replica) == ("replicas", *spot, f"broker {broker}")
    assert found.offset == header.base_offset
    assert found.byte >= 0


@pytest.mark.seeds(60000, SEEDS)
def test_a_skipped_sequence_is_found(seed: int) -> None:
    history = History(seed, skip=Random(seed).randrange(4, 12))
    assert history.skipped_at is not None
    spot, offset = history.skipped_at
    found = the_only(audited(Fleet(history)))
    assert (found.claim, found.topic, found.partition, found.offset) == ("sequences", *spot, offset)


@pytest.mark.seeds(70000, SEEDS)
@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX])
def test_an_index_that_lies_is_found(seed: int, suffix: str) -> None:
    rng = Random(seed)
    fleet = Fleet(History(seed, steps=120))
    broker, spot = rng.choice(BROKERS), rng.choice(DATA)
    paths = [path for path in fleet.files(broker, spot, suffix) if fleet.disk.read(path)]
    if not paths:
        pytest.skip("this history has no entries in such an index")
    path = rng.choice(paths)
    data = bytearray(fleet.disk.read(path))
    width = {names.OFFSET_INDEX: 8, names.TIME_INDEX: 12, names.TRANSACTION_INDEX: 34}[suffix]
    entry = rng.randrange(len(data) // width) * width
    data[entry + {8: 7, 12: 7, 34: 17}[width]] ^= 1  # a position, a timestamp, a first offset
    fleet.change(path, bytes(data))
    found = the_only(audited(fleet))
    assert (found.claim, found.path) == ("indexes", path)


@pytest.mark.seeds(80000, SEEDS)
def test_a_producer_snapshot_that_lies_is_found(seed: int) -> None:
    rng = Random(seed)
    fleet = Fleet(History(seed))
    broker, spot = rng.choice(BROKERS), rng.choice(DATA)
    path = rng.choice(fleet.files(broker, spot, names.PRODUCER_SNAPSHOT))
    data = bytearray(fleet.disk.read(path))
    data[rng.randrange(len(data))] ^= 0x10
    fleet.change(path, bytes(data))
    found = the_only(audited(fleet))
    assert (found.claim, found.path) == ("indexes", path)


@pytest.mark.seeds(90000, SEEDS)
def test_a_group_beyond_the_end_is_found(seed: int) -> None:
    history = History(seed)
    spot = Random(seed).choice(DATA)
    history.commit_beyond(spot)
    found = the_only(audited(Fleet(history)))
    assert (found.claim, found.topic, found.partition) == ("groups", *spot)
    assert f"group g has committed {history.ends[spot] + 1}" in found.text


@pytest.mark.seeds(100000, SEEDS)
def test_a_table_with_one_row_too_many_is_found(seed: int) -> None:
    rng = Random(seed)
    history = History(seed)
    spot = rng.choice(DATA)
    ranges = history.table(spot)
    index = rng.randrange(len(ranges))
    ranges[index] = ranges[index]._replace(rows=ranges[index].rows + 1)
    found = the_only(audited(Fleet(history), ranges))
    assert (found.claim, found.topic, found.partition, found.offset) == ("tables", *spot, ranges[index].start)
    assert "1 more than the log" in found.text


def test_only_the_coordinators_are_listed_before_the_ends_of_all_logs_are_taken() -> None:
    """Listing a log reads its end, which takes long where there are many."""
    asked: list[tuple[str, ...]] = []

    class Listed(AuditedDirectories):
        def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
            asked.append(tuple(topics))
            return super().replicas(topics)

    fleet = Fleet(History(1))
    source = fleet.source()
    result = audit(
        Listed(source.paths, source.disk), AuditScope(), in_processes(1), lambda _size: None, lambda _size: None
    )
    assert asked == [(TRANSACTIONS_TOPIC, OFFSETS_TOPIC), ()]
    assert result.whole_transactions
    assert result.positions


@pytest.mark.parametrize("tail", [bytes(4096), b"\xff" * 4096], ids=["zeros", "ones"])
def test_bytes_behind_a_log_that_was_stopped_cleanly_are_damage_and_make_no_equal_partition(tail: bytes) -> None:
    fleet = Fleet(History(3))
    broker, spot = BROKERS[0], DATA[0]
    path = fleet.files(broker, spot, names.LOG)[-1]
    whole = fleet.disk.read(path)
    fleet.change(path, whole + tail)
    result = audited(fleet)
    found = the_only(result)
    assert (found.claim, found.path, found.byte) == ("bytes", path, len(whole))
    assert result.equal == result.compared - 1


def test_a_replica_that_could_not_be_read_makes_no_equal_partition() -> None:
    spot = DATA[0]

    def without_one(
        call: Callable[[AuditTask], AuditOutcome], work: Sequence[AuditTask], _reached: object
    ) -> Iterator[AuditOutcome]:
        for task in work:
            yield call(task)._replace(is_read=task.replica.spot != spot)

    result = audit(Fleet(History(3)).source(), AuditScope(), without_one, lambda _size: None, lambda _size: None)
    assert (damages(result), result.equal) == ([], result.compared - 1)
