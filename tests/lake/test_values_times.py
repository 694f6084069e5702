"""Records whose timestamps or texts a table format does not take: the topic goes on."""

import json
from pathlib import Path

import pytest
from memory_topic import FORMATS, ID, MemoryTopic, started, target_in, written

from hostile import TIMES_US
from kpybroker.pipeline.lake.checking import TableCheck
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.replaying import replay
from kpybroker.pipeline.lake.target import Target

YEARS_US = range(-62_135_596_800_000_000, 253_402_300_800_000_000)


def holds(target: Target, topic: MemoryTopic) -> bool:
    table = target.open()
    assert table is not None
    values = JsonValues(rule=target.rule)
    return all(
        each.holds for each in TableCheck(topic, ID, table, target.dead_letters().open(), "append", values).counts()
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_timestamps_outside_of_the_years_1_to_9999_are_null_in_rows_and_dead_letters(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    for offset, time_us in enumerate(TIMES_US * 2):
        topic.put(0, (b"k", b'{"n": 1}' if offset < len(TIMES_US) else b"junk"))
        topic.times_us[offset] = time_us
    written(started(target, topic, rows=4), topic)
    table, dead = target.open(), target.dead_letters().open()
    assert table is not None
    assert dead is not None
    for each, first in ((table, 0), (dead, len(TIMES_US))):
        rows = [row for batch in each.rows(ID) for row in batch.to_pylist()]
        assert len(rows) == len(TIMES_US)
        for row in rows:
            assert (row["_timestamp"] is not None) == (TIMES_US[row["_offset"] - first] in YEARS_US)
    assert holds(target, topic)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_text_over_which_the_library_of_iceberg_fails_is_a_dead_letter(tmp_path: Path, mode: str) -> None:
    target, topic = target_in(tmp_path, "iceberg"), MemoryTopic()
    bad = json.dumps({"s": "x" * 15 + "\ud7ff" + "y"}).encode()  # half a pair is behind the first 16 letters of it
    topic.put(0, (b"a", b'{"s": "a"}'), (b"b", bad), (b"c", b"junk"), (b"b", b'{"s": "b"}'), (b"a", bad), (b"d", None))
    written(started(target, topic, mode), topic)
    table, dead = target.open(), target.dead_letters().open()
    assert table is not None
    assert dead is not None
    rows = {row["_offset"]: row["s"] for batch in table.rows(ID) for row in batch.to_pylist()}
    assert rows == ({0: "a", 3: "b", 5: None} if mode == "append" else {3: "b"})
    assert sorted(row["_offset"] for batch in dead.rows(ID) for row in batch.to_pylist()) == [1, 2, 4]
    (count,) = TableCheck(topic, ID, table, dead, mode, JsonValues(rule=target.rule)).counts()
    assert count.holds
    done = replay(table, dead, ID, JsonValues(rule=target.rule), mode, topic)
    assert (done.rows, done.left) == (0, 3 if mode == "append" else 2)
