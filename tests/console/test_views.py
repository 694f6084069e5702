"""The sentences and values of the pages, from states that no running node has at once."""

import base64
import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_views import broker_view

from kpybroker.machines.console.cluster import DiskView, Tally, health_of, reason_of
from kpybroker.machines.console.configs import plain_text
from kpybroker.machines.console.connections import loop_shares
from kpybroker.machines.console.content import content_of, indented, is_json, visible
from kpybroker.machines.console.group_story import story_of
from kpybroker.machines.console.history import HistoryPage
from kpybroker.machines.console.plots import (
    Plot,
    PlotEvent,
    PlotLine,
    TimePlots,
    drawing,
    last_of,
    short_words,
    ticks_along,
    ticks_up,
    value_words,
)
from kpybroker.machines.console.retention import next_deletion
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.stories import Event, Stories
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.topic import Partition
from kpystorage.log_config import LogConfig
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from release.documents.openapi import Schemas

NOON_MS = 1_769_860_800_000
"""Noon on 31 January 2026, in UTC."""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def broker(number: int, *, fenced: bool = False) -> BrokerRegistration:
    record = RegisterBrokerRecord(
        broker_id=number,
        is_migrating_zk_broker=False,
        incarnation_id=bytes(16),
        broker_epoch=number,
        end_points=[],
        features=[],
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=[],
        cordoned_log_dirs=None,
    )
    return BrokerRegistration(record, 0)


BROKERS = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3)}


def partition(isr: tuple[int, ...], leader: int, replicas: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return Partition(replicas, isr, leader, leader_epoch=1, partition_epoch=1)


def health(*partitions: Partition, **changes: Any) -> tuple[str, str]:
    tally = Tally(BROKERS)
    for number, each in enumerate(partitions):
        tally.add("t", number, each)
    nodes = changes.pop("nodes", [broker_view(1, "alive"), broker_view(2, "alive")])
    disks = changes.pop("disks", [DiskView(1, "/d", 100, 50, 1, 1, "working")])
    found = health_of(nodes, tally.totals(), disks, changes.pop("leader", 1), changes.pop("unready", None))
    assert not changes
    return found.state, found.line


def test_health_is_the_worst_thing_with_its_reason() -> None:
    good, thin, lost = partition((1, 2, 3), 1), partition((1, 3), 1), partition((2,), -1)
    assert health(good) == ("good", "1 partition is led and in sync; 2 brokers are alive")
    assert health() == ("good", "2 brokers are alive; there is no topic yet")
    assert health(good, thin)[0] == "warning"
    assert health(good, thin)[1].startswith("1 partition lacks replicas")
    away = [broker_view(1, "alive"), broker_view(2, "fenced")]
    assert health(thin, lost, nodes=away) == ("bad", "1 partition has no leader (broker 2 is away)")
    assert health(good, nodes=away) == ("warning", "broker 2 does not answer the controller")
    assert health(good, leader=None)[0] == "bad"
    assert health(good, unready="it starts") == ("bad", "this node does not serve clients: it starts")
    assert (
        health(good, disks=[DiskView(1, "/d", None, None, None, None, "failed")])[1]
        == "log directory /d of node 1 failed"
    )
    assert health(good, disks=[DiskView(1, "/d", 100, 2, 1, 1, "working")]) == (
        "warning",
        "log directory /d of node 1 is nearly full",
    )


def test_each_partition_that_is_not_well_says_why() -> None:
    assert reason_of(partition((1, 3), 1), BROKERS) == "broker 2 does not answer the controller"
    assert reason_of(partition((1, 2), 1), BROKERS) == "broker 3 is behind"
    assert reason_of(partition((1,), 1, (1, 9)), BROKERS) == "broker 9 is not registered"
    lost = reason_of(partition((2,), -1), BROKERS)
    assert lost == "only its last replicas in sync may lead: broker 2 does not answer the controller"
    assert "unclean" in reason_of(partition((), -1), BROKERS)


class Piece:
    """A segment, as retention sees it."""

    def __init__(self, base_offset: int, size: int, largest_timestamp: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.largest_timestamp = largest_timestamp


def test_the_announced_next_deletion_is_the_one_that_happens() -> None:
    pieces = [Piece(0, 100, 1_000), Piece(10, 100, 2_000), Piece(20, 100, 9_000)]
    by_time = LogConfig(retention_ms=5_000)
    found = next_deletion(pieces, 30, 0, 30, by_time, 6_500)
    assert (found.segments_now, found.bytes_now, found.next_ms) == (1, 100, 7_001)
    assert found.line == "the next check deletes 1 of 3 segments"
    later = next_deletion(pieces[1:], 30, 10, 30, by_time, 7_001)
    assert later.segments_now == 1, "at the time that it said"
    assert next_deletion(pieces[1:], 30, 10, 30, by_time, 7_000).segments_now == 0, "and not before"
    compacted = next_deletion(pieces, 30, 0, 30, LogConfig(cleanup_delete=False), 10**12)
    assert (compacted.segments_now, compacted.next_ms) == (0, None)
    assert "unlimited" in next_deletion(pieces, 30, 0, 30, LogConfig(retention_ms=-1), 10**12).line


# Groups


def test_a_story_names_joined_slow_and_missing_members() -> None:
    events = [
        Event(1_000, stories.JOINED, "a-1", "ann", "/10.0.0.1", "startup"),
        Event(1_000, stories.REBALANCE),
        Event(31_000, stories.LATE_JOIN, "b-1", "bob", "/10.0.0.2"),
        Event(31_000, stories.GENERATION, detail="2, members: 1"),
    ]
    latest, late, _, first = story_of(events)
    assert latest.after_s == 30.0
    assert latest.text == "generation 2, members: 1"
    assert late.text == "bob at 10.0.0.2 did not rejoin in time and was removed"
    assert first.text == "ann at 10.0.0.1 joined: startup"


def test_stories_are_bounded_and_forget_the_groups_not_heard_of_for_longest() -> None:
    kept = Stories()
    for number in range(stories.MOST_GROUPS + 5):
        kept.tell(f"g{number}", Event(number, stories.REBALANCE))
        kept.tell("busy", Event(number, stories.REBALANCE))
    assert kept.of("g0") == []
    assert len(kept.of("busy")) == stories.MOST_EVENTS
    assert len(kept.of(f"g{stories.MOST_GROUPS + 4}")) == 1


# Contents of records


@given(st.binary(max_size=300), st.sampled_from(["auto", "text", "json", "hex"]))
def test_any_bytes_are_shown_as_what_they_are(data: bytes, form: str) -> None:
    found = content_of(data, len(data), form)
    assert base64.b64decode(found.base64 or "") == data
    assert found.bytes == len(data)
    hidden = [each for each in found.text if not each.isprintable() and each not in "\n\t"]
    assert hidden == [], "nothing invisible reaches a page"


@given(st.text(max_size=200))
def test_text_in_utf8_is_shown_as_text(text: str) -> None:
    found = content_of(text.encode(), len(text.encode()), "text")
    assert found.text == visible(text)


@given(JSON_VALUES)
def test_json_is_indented_without_a_change(value: Any) -> None:
    text = json.dumps(value)
    assert is_json(text, must_be_container=False)
    assert json.loads(indented(text)) == value


def test_numbers_and_repeated_names_of_json_stay_as_they_are_written() -> None:
    assert indented('{"a":1.0E400,"a":[],"b":{} }') == '{\n  "a": 1.0E400,\n  "a": [],\n  "b": {}\n}'


def test_bytes_that_are_not_text_are_shown_as_a_hex_dump() -> None:
    assert content_of(b"\xff\xfe\x00", 3).text == "00000000  ff fe 00" + " " * 41 + "..."
    assert content_of(bytes(range(32)), 32).form == "hex"
    assert content_of(b"[" * 100_000, 100_000).form == "text", "JSON that is nested too deep is text"
    assert content_of(None, -1).form == "null"
    assert content_of(b"", 0).form == "empty"


def test_text_that_would_change_how_others_are_read_is_spelled_out() -> None:
    assert visible("a\u202eb\u200b\x1b[31m\x00") == "a<U+202E>b<U+200B><U+001B>[31m<U+0000>"


def test_a_text_that_was_cut_within_a_character_is_still_text() -> None:
    found = content_of("é".encode()[:1], 2)
    assert (found.form, found.text, found.is_cut) == ("text", "", True)


# The rest


def test_a_plot_says_its_values_in_words_and_draws_gaps() -> None:
    plot = Plot('A "title" <b>', "B/s", (PlotLine("in", (1.0, None, 2048.0, 3072.0)),))
    event = PlotEvent(NOON_MS + 10_000, 'topic "<b>" changed')
    drawn = "".join(drawing(TimePlots("10min", NOON_MS, NOON_MS + 40_000, 10.0, (plot,), (event,), 0), plot))
    assert "<title>A &quot;title&quot; &lt;b&gt;: in 3.0 KiB/s now, at most 3.0 KiB/s</title>" in drawn
    assert 'data-words="1 B/s|–|2.0 KiB/s|3.0 KiB/s"' in drawn
    assert drawn.count("<polyline") == 2
    assert 'data-x="0.2500" data-words="12:00:10 topic &quot;&lt;b&gt;&quot; changed"' in drawn
    ElementTree.fromstring(drawn)


def points(*values: float | None) -> list[str]:
    """The points of the lines of a plot whose upper end is 4."""
    plot = Plot("", "records", (PlotLine("", values), PlotLine("", (4.0,))))
    drawn = "".join(drawing(TimePlots("", 0, 1, 1.0, (), (), 0), plot))
    return re.findall('line-0" points="([^"]*)"', drawn)


def test_a_line_goes_through_the_middle_of_each_interval_and_a_lone_value_is_level() -> None:
    assert points(0.0, 4.0, None, 1.0, 2.0) == ["100.0,100.0 300.0,0.0", "700.0,75.0 900.0,50.0"]
    assert points(None, 2.0, None) == ["366.7,50.0 633.3,50.0"]
    assert points(None, None) == []


def test_the_latest_value_is_that_of_the_interval_before_while_the_last_one_has_none() -> None:
    assert [last_of(PlotLine("", values)) for values in ((), (1.0, 2.0), (1.0, None), (1.0, None, None))] == [
        None,
        2.0,
        1.0,
        None,
    ]


@pytest.mark.parametrize(
    ("value", "unit", "words", "short"),
    [
        (None, "ms", "–", "–"),
        (0.5, "ms", "0.50 ms", "0.50 ms"),
        (2048.0, "B/s", "2.0 KiB/s", "2.0 KiB/s"),
        (0.25, "records/s", "0.2 records/s", "0.2/s"),
        (3.0, "partitions", "3 partitions", "3"),
        (90.0, "s", "90 s", "90 s"),
    ],
)
def test_values_have_their_unit_and_in_narrow_columns_none_that_is_long(
    value: float | None, unit: str, words: str, short: str
) -> None:
    assert (value_words(value, unit), short_words(value, unit)) == (words, short)


@pytest.mark.parametrize(
    ("count", "rows"), [(60, list(range(59, -1, -2))), (2, [1, 0]), (240, list(range(239, -1, -8)))]
)
def test_the_table_of_the_history_has_thirty_rows_at_most(count: int, rows: list[int]) -> None:
    plot = Plot("", "ms", (PlotLine("", (None,) * count),))
    assert list(HistoryPage(1, TimePlots("", 0, 1, 1.0, (plot,), (), 0)).rows) == rows


@pytest.mark.parametrize(
    ("unit", "highest", "ticks"),
    [
        ("B/s", 0.0, ("100 B/s", "50 B/s", "0")),
        ("B/s", 3000.0, ("4.0 KiB/s", "2.0 KiB/s", "0")),
        ("B/s", 1023.9 * 1024, ("1.0 MiB/s", "512 KiB/s", "0")),
        ("requests/s", 0.03, ("2/s", "1/s", "0")),
        ("records/s", 4100.0, ("10\u202f000/s", "5\u202f000/s", "0")),
        ("ms", 0.3, ("0.4 ms", "0.2 ms", "0")),
        ("ms", 100.0, ("100 ms", "50 ms", "0")),
        ("s", 3700.0, ("2 h", "60 min", "0")),
        ("partitions", 1.0, ("2", "1", "0")),
    ],
)
def test_a_plot_has_round_ticks_and_nothing_above_them(unit: str, highest: float, ticks: tuple[str, ...]) -> None:
    assert ticks_up(Plot("", unit, (PlotLine("", (highest, None)),))) == ticks


@pytest.mark.parametrize(
    ("minutes", "texts"),
    [
        (10, ["12:02", "12:04", "12:06", "12:08"]),
        (60, ["12:10", "12:20", "12:30", "12:40", "12:50"]),
        (360, ["13:00", "14:00", "15:00", "16:00", "17:00"]),
        (1440, ["16:00", "20:00", "1 Feb", "04:00", "08:00"]),
    ],
)
def test_the_times_below_a_plot_are_round(minutes: int, texts: list[str]) -> None:
    plots = TimePlots("", NOON_MS, NOON_MS + minutes * 60_000, 10.0, (), (), 0)
    assert [each.text for each in ticks_along(plots)] == texts


def test_the_loop_is_shared_by_what_used_it() -> None:
    shares = loop_shares(
        {"loop Fetch": 0.2, "loop Produce": 0.4, "late": 9.0, "loop collector": 0.1, "loop Metadata": 0.0}
    )
    assert [(each.what, each.share) for each in shares] == [
        ("Produce", 0.4),
        ("Fetch", 0.2),
        ("the garbage collector", 0.1),
    ]


def test_kafkas_texts_lose_their_markup_only() -> None:
    assert plain_text("Use <code>a&lt;b</code>.<p>More<ul><li>one</li></ul>") == "Use a<b. More one"


def test_a_type_without_a_schema_is_a_mistake_that_shows() -> None:
    with pytest.raises(TypeError):
        Schemas().of(set)
