"""A topic that has lost records which a table has: a run names them or deletes their rows, and the check finds them."""

from pathlib import Path

import pytest
from memory_topic import FORMATS, ID, MemoryTopic, started, target_in, writer_of, written

from kpybroker.pipeline.lake import following
from kpybroker.pipeline.lake.checking import TableCheck, as_text
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.target import Target

pytestmark = pytest.mark.parametrize("kind", FORMATS)


class Never:
    """Nothing that stops."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:  # noqa: ARG002
        raise AssertionError("there is nothing to wait for")


def cut_topic(target: Target, mode: str = "append", dead: bytes = b"junk") -> MemoryTopic:
    """A topic of ten records that were written, of which it has the first six; one of the others is a dead letter."""
    topic = MemoryTopic(2)
    topic.put(0, *((b"k%d" % number, b'{"n": %d}' % number) for number in range(9)), (b"bad", dead))
    written(started(target, topic, mode), topic)
    topic.last[0] = 6
    for offset in range(6, 10):
        del topic.logs[0][offset]
    return topic


def counted(target: Target, topic: MemoryTopic) -> TableCheck:
    table = target.open()
    assert table is not None
    return TableCheck(topic, ID, table, target.dead_letters().open(), "append", JsonValues())


def test_a_log_that_ends_below_the_table_ends_a_run_with_one_line(tmp_path: Path, kind: str) -> None:
    target = target_in(tmp_path, kind)
    topic = cut_topic(target)
    line = "flights-0: the table has offsets up to 10, and the log ends at 6: the topic has lost records; --skip-lost"
    writer = started(target, topic)
    with pytest.raises(LakeError, match=line):
        list(following.once(writer, topic, Never()))  # type: ignore[arg-type]
    topic.find = lambda: ID  # type: ignore[attr-defined]
    with pytest.raises(LakeError, match=line):
        list(following.follow(writer, topic, ID, Never(), print))  # type: ignore[arg-type]
    (count, _) = counted(target, topic).counts()
    assert not count.holds


def test_rows_of_lost_records_are_deleted_if_that_is_wanted_and_the_run_goes_on(tmp_path: Path, kind: str) -> None:
    target = target_in(tmp_path, kind)
    topic = cut_topic(target)
    topic.fails_on_data_loss = False
    lines: list[str] = []
    assert list(following.once(started(target, topic), topic, Never(), lines.append)) == []  # type: ignore[arg-type]
    assert lines == ["flights-0: the table has offsets up to 10, and the log ends at 6; rows behind it were deleted."]
    topic.put(0, (b"x", b'{"n": 100}'), (b"y", b"junk"))
    (committed,) = following.once(started(target, topic), topic, Never())  # type: ignore[arg-type]
    assert (committed.rows, committed.dead) == (1, 1)
    check = counted(target, topic)
    assert [as_text("append", count) for count in check.counts()] == [
        "partition 0 [0, 8): 8 offsets - 0 gaps = 7 rows + 1 dead letters",
        "partition 1 [0, 0): 0 offsets - 0 gaps = 0 rows + 0 dead letters",
    ]


def test_a_loss_without_rows_to_delete_moves_the_offsets_back_too(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, (b"a", b'{"n": 1}'), None, None)
    written(started(target, topic), topic)
    topic.last[0], topic.fails_on_data_loss = 1, False
    list(following.once(started(target, topic), topic, Never(), print))  # type: ignore[arg-type]
    table = target.open()
    assert table is not None
    assert table.covered(ID).coverage[0][-1].end == 1


def test_records_that_an_open_transaction_holds_back_are_not_lost(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, (b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'))
    written(started(target, topic), topic)
    topic.ends = lambda: {0: 1}  # type: ignore[method-assign]
    topic.log_ends = lambda: {0: 2}  # type: ignore[method-assign]
    assert list(following.once(started(target, topic), topic, Never())) == []  # type: ignore[arg-type]


def test_rows_that_have_other_contents_than_the_topic_are_found_and_named(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, *((b"k%d" % number, b'{"n": %d, "s": "x"}' % number) for number in range(6)), (b"bad", b"junk"))
    written(started(target, topic), topic)
    topic.logs[0][1] = (b"other", b'{"n": 1, "s": "x"}')
    topic.logs[0][2] = (b"k2", b'{"n": 2.5, "s": "x"}')
    topic.times_us[3] = 0
    topic.logs[0][4] = (b"k4", b'{"s": "y", "n": 4}')
    topic.logs[0][6] = (b"bad", b"rubbish")
    check = counted(target, topic)
    (count,) = check.counts()
    assert as_text("append", count).endswith("!= 6 rows + 1 dead letters: 5 different")
    assert [(each.offset, each.what) for each in check.findings] == [
        (1, "has another _key in the topic"),
        (2, "has another n and n__str in the topic"),
        (3, "has another _timestamp in the topic"),
        (4, "has another s in the topic"),
        (6, "has another value in the topic"),
    ]


def test_without_the_format_of_values_their_columns_are_not_compared(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, (b"a", b'{"n": 1}'))
    writer = writer_of(target, topic, started(target, topic)._table)
    writer.take_over(None)
    writer.begin(backfill=False)
    written(writer, topic)
    topic.logs[0][0] = (b"a", b'{"n": 2}')
    table = target.open()
    assert table is not None
    (count,) = TableCheck(topic, ID, table, None, "append").counts()
    assert count.holds
