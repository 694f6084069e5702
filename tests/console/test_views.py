"""The sentences and values of the pages, from states that no running node has at once."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_views import broker_view

from kpybroker.machines.console.cluster import DiskView, Tally, health_of, reason_of
from kpybroker.machines.console.connections import loop_shares
from kpybroker.machines.console.content import content_of, indented, is_json, visible
from kpybroker.machines.console.groups import story_of
from kpybroker.machines.console.plots import Plot, PlotLine, svg_of
from kpybroker.machines.console.retention import next_deletion
from kpybroker.machines.console.topics import plain_text
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.stories import Event, Stories
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.topic import Partition
from kpystorage.log_config import LogConfig
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from release.documents.openapi import Schemas

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
    drawn = svg_of(Plot('A "title" <b>', "B/s", 2.0, (PlotLine("in", (1.0, None, 2048.0, 3072.0)),)))
    assert 'aria-label="A &quot;title&quot; &lt;b&gt;: in 3.0 KiB/s"' in drawn
    assert drawn.count("<polyline") == 2


def test_the_loop_is_shared_by_what_used_it() -> None:
    shares = loop_shares([{"loop Fetch": 0.2, "loop Produce": 0.4, "loop late": 9.0, "loop collector": 0.1}] * 2)
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
