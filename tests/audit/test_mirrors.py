"""A mirror has the records of its source, whatever their batches are; the first one that differs is named."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from fleet import DATA, Fleet, History
from log_making import NOW_MS, headers_of

from kpybroker.machines.audit.mirror import Unequal, compare
from kpybroker.machines.audit.records import committed_records
from kpybroker.pipeline.audit.mapping import in_processes
from kpybroker.pipeline.audit.mirroring import Mirroring
from kpybroker.pipeline.audit.mirroring import compare as compare_all
from kpystorage.reading import StoredBatch
from kpywire.compression import GZIP, NONE
from kpywire.record import Record, build_batch

SEEDS = 8


def stored(batches: Sequence[bytes]) -> Callable[[], Iterator[StoredBatch]]:
    return lambda: iter([StoredBatch(headers_of(batch)[0], memoryview(batch)) for batch in batches])


def closed(seed: int, rng: Random) -> list[bytes]:
    """The batches of a partition with enough committed records."""
    history = History(seed)
    while True:
        batches = history.batches[rng.choice(DATA)]
        if len(committed(batches)) > 10:
            return batches
        seed += 1
        history = History(seed)


def committed(batches: Sequence[bytes]) -> list[Record]:
    """The records that a mirror copies, in the order of the log: those below the first open transaction."""
    begun: dict[int, int] = {}
    for batch in batches:
        (header,) = headers_of(batch)
        if header.is_control:
            begun.pop(header.producer_id, None)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    stable = min(begun.values(), default=1 << 60)
    found = [record for record in committed_records(stored(batches)()) if record.offset < stable]
    return sorted(found, key=lambda record: record.offset)


def mirrored(records: Sequence[Record], rng: Random, *, keep_offsets: bool) -> list[bytes]:
    """The records in other batches, some of them compressed."""
    batches, position, next_offset = [], 0, 0
    while position < len(records):
        some = records[position : position + rng.randint(1, 6)]
        position += len(some)
        base = some[0].offset if keep_offsets else next_offset
        offsets = [record.offset for record in some] if keep_offsets else [-1] * len(some)
        plain = [record._replace(offset=offset) for record, offset in zip(some, offsets, strict=True)]
        batches.append(build_batch(plain, base_offset=base, codec=rng.choice((NONE, GZIP))))
        next_offset = headers_of(batches[-1])[0].next_offset
    return batches


def differences(source: Sequence[bytes], mirror: Sequence[bytes], *, any_offsets: bool) -> list[Unequal]:
    return list(compare(stored(source), stored(mirror), any_offsets=any_offsets))


@pytest.mark.parametrize("any_offsets", [False, True])
@pytest.mark.seeds(3000, SEEDS)
def test_a_mirror_in_other_batches_is_equal(seed: int, any_offsets: bool) -> None:
    rng = Random(seed)
    source = closed(seed, rng)
    mirror = mirrored(committed(source), rng, keep_offsets=not any_offsets)
    assert differences(source, mirror, any_offsets=any_offsets) == []
    assert differences(source, source, any_offsets=any_offsets) == []


@pytest.mark.parametrize("any_offsets", [False, True])
@pytest.mark.seeds(3100, SEEDS)
def test_the_first_record_that_differs_is_named(seed: int, any_offsets: bool) -> None:
    rng = Random(seed)
    source = closed(seed, rng)
    records = committed(source)
    index = rng.randrange(len(records) // 2, len(records))
    changed = list(records)
    name, value = rng.choice(
        (("key", b"k"), ("value", b"other"), ("timestamp", NOW_MS - 5), ("headers", (("h", b""),)))
    )
    changed[index] = changed[index]._replace(**{name: value})
    (found,) = differences(source, mirrored(changed, rng, keep_offsets=not any_offsets), any_offsets=any_offsets)
    assert found.text.startswith(f"has another {name} at offset")
    assert found.offset == (index if any_offsets else records[index].offset)


@pytest.mark.seeds(3200, SEEDS)
def test_a_lost_record_and_one_too_many_are_named(seed: int) -> None:
    rng = Random(seed)
    source = closed(seed, rng)
    records = committed(source)
    lost = records.pop(rng.randrange(1, len(records) - 1))
    (found,) = differences(source, mirrored(records, rng, keep_offsets=True), any_offsets=False)
    assert found == Unequal(lost.offset, f"lacks the record of offset {lost.offset}")
    (found,) = differences(mirrored(records, rng, keep_offsets=True), source, any_offsets=False)
    assert found == Unequal(lost.offset, f"has a record at offset {lost.offset} that its source has not")


@pytest.mark.parametrize("any_offsets", [False, True])
@pytest.mark.seeds(3300, SEEDS)
def test_a_mirror_that_is_behind_or_lost_its_beginning_is_not_wrong(seed: int, any_offsets: bool) -> None:
    rng = Random(seed)
    source = closed(seed, rng)
    records = committed(source)
    mirror = mirrored(records[2:-3], rng, keep_offsets=not any_offsets)
    (found,) = differences(source, mirror, any_offsets=any_offsets)
    assert found.is_behind
    assert found.offset == records[-3].offset
    assert "is 3 records behind" in found.text
    assert differences(mirror, source, any_offsets=any_offsets) != []


def test_the_partitions_of_directories_are_compared_by_name() -> None:
    fleet = Fleet(History(1))
    other = Fleet(History(1), {(1, DATA[0]): History(2).batches[DATA[0]]})
    wanted = Mirroring(other.source())
    count, found = compare_all(fleet.source(), wanted, in_processes(1), lambda _size: None, lambda _size: None)
    assert count == len(DATA)
    assert {(each.claim, each.topic, each.partition) for each in found} <= {("mirror", *DATA[0])}
    same, none = compare_all(
        fleet.source(), Mirroring(Fleet(History(1)).source()), in_processes(1), lambda _size: None, lambda _size: None
    )
    assert (same, none) == (len(DATA), [])
