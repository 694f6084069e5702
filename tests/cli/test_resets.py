"""The offsets to which resets move a group, and the texts that say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.client import resets
from kpybroker.client.client import Spot
from kpybroker.client.resets import Reset, ResetRange

A, B = Spot("a", 0), Spot("b", 7)
LOGS = {A: ResetRange(10, 20), B: ResetRange(0, 0)}

offsets = st.integers(0, 1 << 40)
spots = st.builds(Spot, st.text(min_size=1, max_size=20), st.integers(0, 99))


@given(st.dictionaries(spots, st.tuples(offsets, offsets)), st.data())
def test_no_reset_leaves_the_log(sizes: dict[Spot, tuple[int, int]], data: st.DataObject) -> None:
    logs = {spot: ResetRange(start, start + size) for spot, (start, size) in sizes.items()}
    committed = {spot: data.draw(offsets) for spot in logs}
    count = data.draw(st.integers(-(1 << 41), 1 << 41))
    target = data.draw(offsets)
    found = {spot: data.draw(st.sampled_from([-1, log.start, log.end])) for spot, log in logs.items()}
    for planned in (
        resets.to_earliest(committed, logs),
        resets.to_latest(committed, logs),
        resets.to_offset(target, committed, logs),
        resets.shift_by(count, committed, logs),
        resets.to_time(found, committed, logs),
        resets.to_plan(dict.fromkeys(logs, target), committed, logs),
    ):
        assert [each.spot for each in planned] == sorted(logs)
        assert all(logs[each.spot].start <= each.offset <= logs[each.spot].end for each in planned)


def test_an_offset_outside_the_log_becomes_its_end_and_says_so() -> None:
    assert resets.to_offset(50, {A: 12}, {A: LOGS[A]}) == [Reset(A, 12, 20, "50 is behind the end 20")]
    assert resets.shift_by(-9, {A: 12}, {A: LOGS[A]}) == [Reset(A, 12, 10, "3 is before the start 10")]


def test_partitions_without_commits_cannot_be_shifted() -> None:
    with pytest.raises(ValueError, match="nothing is committed for b-7"):
        resets.shift_by(1, {A: 12}, LOGS)
    assert [each.offset for each in resets.to_current({A: 12}, LOGS)] == [12, 0]


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert [each.offset for each in resets.to_time({A: -1, B: -1}, {}, LOGS)] == [20, 0]


plans = st.dictionaries(
    st.text(min_size=1, max_size=10).filter(lambda name: name == name.strip()),
    st.dictionaries(
        st.builds(Spot, st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), st.integers(0, 9)),
        offsets,
    ),
    min_size=1,
    max_size=3,
)


@given(plans)
def test_an_export_reads_back_as_the_same_plan(plan: dict[str, dict[Spot, int]]) -> None:
    printable = {name.replace("\n", "").replace("\r", "") or "g": offsets for name, offsets in plan.items()}
    planned = {
        group: [Reset(spot, None, offset) for spot, offset in offsets.items()] for group, offsets in printable.items()
    }
    assert resets.parse_csv(resets.render_csv(planned), printable) == printable


@pytest.mark.parametrize("text", ["t,0", "t,zero,1", "t,0,1,2,3", "x" * 200_000, "t\r,0,1"])
def test_a_plan_that_cannot_be_read_names_its_line(text: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        resets.parse_csv(f"t,1,2\n{text}\n", ["g"])


def test_lines_of_other_groups_are_left_alone() -> None:
    assert resets.parse_csv('"g","t",0,5\nother,t,0,9\n', ["g"]) == {"g": {Spot("t", 0): 5}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("t", ("t", ())), ("t:0", ("t", (0,))), ("my.topic-1:2,5", ("my.topic-1", (2, 5)))],
)
def test_topics_name_their_partitions(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    assert resets.parse_spots(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:a", "t:-1"])
def test_an_invalid_topic_partition_argument_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        resets.parse_spots(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-01-31T12:00:00.000", 1769860800000),
        ("2026-01-31T12:00:00.250Z", 1769860800250),
        ("2026-01-31T13:00:00+01:00", 1769860800000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, milliseconds: int) -> None:
    assert resets.parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H30M", 5_400_000), ("P1D", 86_400_000), ("PT0.5S", 500), ("1h30m", 5_400_000), ("2d", 172_800_000)],
)
def test_durations_are_isos_or_short(text: str, milliseconds: int) -> None:
    assert resets.parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "h", "yesterday"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        resets.parse_duration_ms(text)


def test_the_file_of_kafka_delete_records_is_read() -> None:
    text = '{"partitions": [{"topic": "t", "partition": 1, "offset": -1}], "version": 1}'
    assert resets.parse_delete_records(text) == {Spot("t", 1): -1}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": [{}]}', '{"partitions": [], "version": 2}'])
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        resets.parse_delete_records(text)
