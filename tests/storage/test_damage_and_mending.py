"""Damage of a partition in memory: how it is named, what is noted instead, and what mending makes of it."""

from collections.abc import Callable

import pytest
from log_making import TOPIC_ID, append, headers_of, make_batch, make_marker, open_directory

from kpystorage import names, partition_metadata
from kpystorage.checking.findings import DAMAGE, NOTE
from kpystorage.checking.mending import PartitionMending, Setter
from kpystorage.checking.partition import PartitionCheck, PartitionFacts
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk

PATH = "/data/t-0"
CLEAN = PartitionFacts(clean=True, topic_id=TOPIC_ID)
KILLED = PartitionFacts(clean=False, topic_id=TOPIC_ID, recovery_point=0)
OTHER_ID = b"o" * 16


def filled(*batches: bytes, segment_bytes: int = 1_000) -> MemoryDisk:
    """The disk of a broker that stopped cleanly: a log with these batches, or ten of two records in five segments."""
    disk = MemoryDisk()
    disk.make_directory("/data")
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1)
    directory = open_directory(disk, config=config)
    log = directory.create_log("t", 0, TOPIC_ID, config, 1)
    for batch in batches or [make_batch(base, 2, value_bytes=200) for base in range(0, 20, 2)]:
        append(log, batch)
    directory.close()
    return disk


def segments(disk: MemoryDisk) -> list[str]:
    return sorted(name for name in disk.list_directory(PATH) if name.endswith(names.LOG))


def reported(disk: MemoryDisk, around: PartitionFacts = CLEAN, level: str = DAMAGE) -> list[tuple[str, str]]:
    found = PartitionCheck(disk, PATH, around).run().findings
    return [(each.path.rpartition("/")[2], each.text) for each in found if each.level == level]


def change(disk: MemoryDisk, name: str, how: Callable[[bytearray], object]) -> None:
    data = bytearray(disk.read(f"{PATH}/{name}"))
    how(data)
    disk.write(f"{PATH}/{name}", bytes(data), synchronize=True)


def flip(disk: MemoryDisk, name: str, position: int) -> None:
    def how(data: bytearray) -> None:
        data[position] ^= 1

    change(disk, name, how)


def mended(disk: MemoryDisk, around: PartitionFacts = CLEAN, *, metadata: bool = False) -> list[str]:
    """Mend, and check that nothing is damaged then. Return the lines that tell what was done, without paths."""
    mending = PartitionMending(disk, PATH, around, Setter(disk, "20261120T224000Z"), metadata=metadata)
    report = mending.run()
    if not metadata:
        assert [each for each in report.findings if each.level == DAMAGE] == []
    return [each.removeprefix(f"{PATH}/") for each in mending.lines]


def second(disk: MemoryDisk) -> tuple[str, int]:
    """The second segment, and the position of its second batch."""
    name = segments(disk)[1]
    return name, headers_of(disk.read(f"{PATH}/{name}"))[0].size


def test_a_log_that_was_stopped_cleanly_has_no_damage_and_nothing_to_mend() -> None:
    disk = filled()
    report = PartitionCheck(disk, PATH, CLEAN).run()
    assert report.findings == []
    assert (report.log_start, report.log_end, report.last_epoch, report.first_base) == (0, 20, 0, 0)
    assert report.size_bytes == sum(len(disk.read(f"{PATH}/{name}")) for name in segments(disk))
    before = {name: disk.read(f"{PATH}/{name}") for name in disk.list_directory(PATH)}
    assert mended(disk) == []
    assert {name: disk.read(f"{PATH}/{name}") for name in disk.list_directory(PATH)} == before


# Batches.


def test_a_damaged_batch_is_taken_out_and_what_is_lost_is_named() -> None:
    disk = filled()
    name, at = second(disk)
    flip(disk, name, at + 100)
    ((where, text), *_) = reported(disk)
    assert where == name
    base = headers_of(disk.read(f"{PATH}/{name}"))[1].base_offset
    assert text.startswith(f"byte {at}: the batch of offset {base}: ")
    lines = mended(disk)
    aside = next(each for each in disk.list_directory(PATH) if each.startswith(f"{name}."))
    assert lines[0] == f"{name}: taken out, and lost: offsets {base} to {base + 1}; the old one is {aside}"
    assert any("its indexes are rebuilt" in each for each in lines)
    assert len(headers_of(disk.read(f"{PATH}/{name}"))) == len(headers_of(disk.read(f"{PATH}/{aside}"))) - 1
    noted = [text for _, text in reported(disk, level=NOTE)]
    assert any("a repair has taken it out" in each for each in noted) or any("set aside" in each for each in noted)


@pytest.mark.parametrize("wrong", [0, 99])
def test_a_wrong_base_offset_is_put_right_by_its_neighbours(wrong: int) -> None:
    disk = filled()
    name, at = second(disk)
    whole = disk.read(f"{PATH}/{name}")
    base = headers_of(whole)[1].base_offset

    def how(data: bytearray) -> None:
        data[at : at + 8] = wrong.to_bytes(8, "big")

    change(disk, name, how)
    text = f"byte {at}: a batch's base offset is {wrong} instead of {base}"
    assert (name, text) in reported(disk)
    assert any("1 of its batches put right" in each for each in mended(disk))
    assert disk.read(f"{PATH}/{name}") == whole


def test_a_wrong_leader_epoch_is_put_right_by_the_checkpoint() -> None:
    disk = filled()
    name, at = second(disk)
    whole = disk.read(f"{PATH}/{name}")

    def how(data: bytearray) -> None:
        data[at + 12 : at + 16] = (7).to_bytes(4, "big")

    change(disk, name, how)
    assert any(where == name and "epoch" in text for where, text in reported(disk))
    assert mended(disk)
    assert disk.read(f"{PATH}/{name}") == whole


def test_bytes_that_are_no_batch_are_taken_out() -> None:
    disk = filled()
    name, at = second(disk)
    change(disk, name, lambda data: data.__setitem__(slice(at, at), bytes(70)))
    assert any(text.startswith(f"byte {at}: ") for where, text in reported(disk) if where == name)
    lines = mended(disk)
    base = headers_of(disk.read(f"{PATH}/{name}"))[1].base_offset
    assert any(f"70 bytes from offset {base} on, up to the next batch" in each for each in lines)


def test_a_tail_that_was_not_finished_is_no_damage_unless_the_stop_was_clean() -> None:
    disk = filled()
    last = segments(disk)[-1]
    size = len(disk.read(f"{PATH}/{last}"))
    change(disk, last, lambda data: data.extend(make_batch(20, 2)[:50]))
    assert [where for where, _ in reported(disk)] == [last]
    assert reported(disk, KILLED) == []
    assert (last, f"byte {size}: 50 bytes of a write that did not finish") in reported(disk, KILLED, NOTE)
    change(disk, last, lambda data: data.__setitem__(slice(size, None), bytes(80)))
    assert reported(disk, KILLED) == []
    assert "80 zeros" in reported(disk)[0][1]


def test_a_segment_that_is_missing_leaves_a_gap() -> None:
    disk = filled()
    gone, after = segments(disk)[1:3]
    stem = gone.removesuffix(names.LOG)
    for name in list(disk.list_directory(PATH)):
        if name.startswith(stem):
            disk.unlink(f"{PATH}/{name}")
    base, following = int(stem), int(after.removesuffix(names.LOG))
    text = f"begins at offset {following}; the segment before it ends at {base}"
    assert reported(disk) == [(after, text)]
    assert reported(disk, CLEAN._replace(cleaned_to=following)) == []
    assert reported(disk, CLEAN._replace(cleaned_to=following - 1)) != []


def test_the_metadata_log_loses_nothing_to_a_repair() -> None:
    disk = filled()
    name, at = second(disk)
    flip(disk, name, at + 100)
    damaged = disk.read(f"{PATH}/{name}")
    assert f"{name}: left as it is; restore it from a copy" in mended(disk, metadata=True)
    assert disk.read(f"{PATH}/{name}") == damaged


# Files beside the segments.


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
def test_an_index_that_is_missing_or_lies_is_rebuilt(suffix: str) -> None:
    disk = filled()
    index = segments(disk)[1].removesuffix(names.LOG) + suffix
    whole = disk.read(f"{PATH}/{index}")
    assert whole
    flip(disk, index, len(whole) - (1 if suffix == names.OFFSET_INDEX else 12))
    assert [where for where, _ in reported(disk)] == [index]
    assert reported(disk, KILLED) == [], "the next start rebuilds it"
    assert any(
        where == index and "; the next start rebuilds it" in text for where, text in reported(disk, KILLED, NOTE)
    )
    assert any("its indexes are rebuilt; the old one is" in each for each in mended(disk))
    disk.unlink(f"{PATH}/{index}")
    assert reported(disk) == [(index, "is missing")]
    assert reported(disk, KILLED) == []
    assert (index, "is missing; the next start rebuilds it") in reported(disk, KILLED, NOTE)
    mended(disk)
    assert disk.status(f"{PATH}/{index}") is not None


def test_an_index_without_its_segment_is_set_aside() -> None:
    disk = filled()
    alone = names.segment_file(999, names.OFFSET_INDEX)
    disk.write(f"{PATH}/{alone}", b"", synchronize=True)
    assert reported(disk) == [(alone, "an index without its segment")]
    assert reported(disk, KILLED) == []
    (line,) = mended(disk)
    assert line.startswith(f"{alone}: has no segment; the old one is {alone}.")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (partition_metadata.render(OTHER_ID), "its topic id is "),
        (b"version: 0\n", "has no"),
        (partition_metadata.render(TOPIC_ID) + b"\nmore: 1\n", ""),
        (None, "names no topic id"),
    ],
)
def test_partition_metadata_names_the_topic_as_the_cluster_knows_it(content: bytes | None, text: str) -> None:
    disk = filled()
    path = f"{PATH}/{names.PARTITION_METADATA}"
    right = disk.read(path)
    disk.unlink(path)
    if content is not None:
        disk.write(path, content, synchronize=True)
    found = reported(disk)
    assert [where for where, _ in found] == [names.PARTITION_METADATA]
    if text != "has no":
        assert text in found[0][1]
    assert any(each.startswith(f"{names.PARTITION_METADATA}: rewritten") for each in mended(disk))
    assert disk.read(path).rstrip() == right.rstrip()


def test_other_files_are_noted() -> None:
    disk = filled()
    for name in ("notes.txt", names.segment_file(0, names.LOG) + ".cleaned", "partition.metadata.tmp"):
        disk.write(f"{PATH}/{name}", b"", synchronize=True)
    noted = dict(reported(disk, level=NOTE))
    assert noted["notes.txt"] == "none of Kafka's files; nobody reads it"
    assert reported(disk) == []


def test_a_recovery_point_agrees_with_the_end_of_the_log() -> None:
    disk = filled()
    place = "recovery-point-offset-checkpoint"
    for point, text in (
        (21, "says that 21 was flushed, and the log ends at 20"),
        (19, "says 19, though the log ends at 20"),
        (20, ""),
        (-1, ""),
    ):
        expected = [(place, text)] if text else []
        assert reported(disk, CLEAN._replace(recovery_point=point)) == expected
    assert reported(disk, KILLED._replace(recovery_point=19)) == []
    assert reported(disk, KILLED._replace(recovery_point=21)) != []


# Producers and transactions.


def with_transactions() -> MemoryDisk:
    batches, sequence = [], 0
    for base in range(0, 30, 3):
        batches.append(make_batch(base, 2, value_bytes=200, producer_id=7, base_sequence=sequence, transactional=True))
        batches.append(make_marker(base + 2, 7, commit=base % 2 == 0))
        sequence += 2
    return filled(*batches)


@pytest.mark.parametrize("suffix", [names.TRANSACTION_INDEX, names.PRODUCER_SNAPSHOT])
def test_producer_states_are_rebuilt_from_the_batches(suffix: str) -> None:
    disk = with_transactions()
    assert reported(disk) == []
    files = [
        name for name in sorted(disk.list_directory(PATH)) if name.endswith(suffix) and disk.read(f"{PATH}/{name}")
    ]
    assert files
    for name in files[:2]:
        whole = disk.read(f"{PATH}/{name}")
        flip(disk, name, len(whole) - 1)
        assert [where for where, _ in reported(disk)] == [name]
        mended(disk)
        assert disk.read(f"{PATH}/{name}") == whole


def test_a_damaged_snapshot_of_producers_that_the_next_start_rebuilds_is_noted() -> None:
    disk = with_transactions()
    newest = max(name for name in disk.list_directory(PATH) if name.endswith(names.PRODUCER_SNAPSHOT))
    flip(disk, newest, len(disk.read(f"{PATH}/{newest}")) - 1)
    assert reported(disk, KILLED) == []
    assert [where for where, text in reported(disk, KILLED, NOTE) if text.endswith("; the next start rebuilds it")] == [
        newest
    ]
    assert [where for where, _ in reported(disk, KILLED._replace(recovery_point=30))] == [newest]


def test_a_snapshot_behind_the_end_of_the_log_is_set_aside() -> None:
    disk = with_transactions()
    newest = max(name for name in disk.list_directory(PATH) if name.endswith(names.PRODUCER_SNAPSHOT))
    late = names.segment_file(99, names.PRODUCER_SNAPSHOT)
    disk.write(f"{PATH}/{late}", disk.read(f"{PATH}/{newest}"), synchronize=True)
    assert reported(disk) == [(late, "knows of offset 99, behind its own or the log's end")]
    assert any(each.startswith(f"{late}: set aside; the producers before offset 99") for each in mended(disk))


def test_files_of_one_repair_have_names_of_their_own() -> None:
    disk = filled()
    setter = Setter(disk, "20261120T224000Z")
    name = segments(disk)[0]
    assert setter.set_aside(f"{PATH}/nothing") == ""
    data = disk.read(f"{PATH}/{name}")
    first = setter.set_aside(f"{PATH}/{name}")
    disk.write(f"{PATH}/{name}", b"other", synchronize=True)
    other = setter.set_aside(f"{PATH}/{name}")
    assert first != other
    assert (disk.read(first), disk.read(other)) == (data, b"other")
    assert disk.status(f"{PATH}/{name}") is None
