"""The rows of the console's pages: what is counted, what is listed, in which order, and in which words."""

from types import SimpleNamespace
from typing import Any

import pytest
from made_values import rendered
from node_views import broker_view

from kpybroker.machines.console.cluster import (
    MOST_TROUBLES,
    NO_LEADER,
    UNDER_REPLICATED,
    DiskView,
    Tally,
    Totals,
    health_of,
    is_under_replicated,
    reason_of,
)
from kpybroker.machines.console.configs import SOURCES, TOPIC_SOURCE, config_row, plain_text
from kpybroker.machines.console.connections import loop_shares
from kpybroker.machines.console.content import ContentBySchema
from kpybroker.machines.console.group_story import StoryRow, member_label, story_of
from kpybroker.machines.console.listing import PER_PAGE, pages_of
from kpybroker.machines.console.nodes import NodeFacts, nodes_of
from kpybroker.machines.console.record_tasks import FoundRecord, Unreadable
from kpybroker.machines.console.records import NEWEST, OLDEST, RecordsGap, gaps_of, in_order, nothing_chosen, row_of
from kpybroker.machines.console.retention import RetentionDeletion, next_deletion
from kpybroker.machines.console.segments import CODECS, batch_rows
from kpybroker.machines.console.topics import (
    NO_RATE,
    PartitionRow,
    ReaderLag,
    TopicRate,
    TopicShape,
    TopicSize,
    is_internal,
    is_wanted,
    policy_and_retention,
    topic_row,
    usual_deletion,
)
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.stories import Event
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.monitoring.console.answers.positions import records_left
from kpybroker.monitoring.console.pages import PAGES
from kpystorage.log_config import LogConfig
from kpywire.batch import parse_header
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kpywire.record import Record, build_batch
from kpywire.uuid import to_string

DIRECTORY, FAILED = b"d" * 16, b"f" * 16


def broker(number: int, *, fenced: bool = False, stopping: bool = False, rack: str | None = None) -> BrokerRegistration:
    record = RegisterBrokerRecord(
        broker_id=number,
        is_migrating_zk_broker=False,
        incarnation_id=bytes(16),
        broker_epoch=number,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="here", port=9000 + number, security_protocol=0)],
        features=[],
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=stopping,
        log_dirs=[DIRECTORY],
        cordoned_log_dirs=None,
    )
    return BrokerRegistration(record, 0)


BROKERS = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3, stopping=True), 4: broker(4)}


def partition(isr: tuple[int, ...], leader: int, replicas: tuple[int, ...] = (1, 2, 3), **more: Any) -> Partition:
    return Partition(replicas, isr, leader, leader_epoch=1, partition_epoch=1, **more)


def totals_of(*partitions: Partition) -> Totals:
    tally = Tally(BROKERS)
    for number, each in enumerate(partitions):
        tally.add("t", number, each)
    return tally.totals()


# The cluster.


def test_partitions_are_counted_and_those_that_are_not_well_listed() -> None:
    lost, thin, good = partition((2,), -1), partition((1, 3), 1), partition((1, 2, 3), 1)
    first = partition((1,), 0, (0, 1))
    found = totals_of(thin, good, lost, lost, first)
    assert (found.partitions, found.without_leader, found.under_replicated) == (5, 2, 2)
    assert dict(found.leaders) == {1: 2, -1: 2, 0: 1}
    assert dict(found.replicas) == {0: 1, 1: 5, 2: 4, 3: 4}
    assert [(each.partition, each.state, each.leader) for each in found.troubles] == [
        (2, NO_LEADER, None),
        (3, NO_LEADER, None),
        (0, UNDER_REPLICATED, 1),
        (4, UNDER_REPLICATED, 0),
    ]
    assert (found.troubles[2].replicas, found.troubles[2].in_sync) == ((1, 2, 3), (1, 3))


def test_only_so_many_troubles_are_listed_and_those_without_a_leader_first() -> None:
    thin, lost = partition((1, 3), 1), partition((2,), -1)
    found = totals_of(*[thin] * (MOST_TROUBLES + 1), lost)
    assert len(found.troubles) == MOST_TROUBLES
    assert found.troubles[0].state == NO_LEADER
    assert found.under_replicated == MOST_TROUBLES + 1


def test_more_than_twenty_partitions_that_are_not_well_are_folded() -> None:
    few, many = (rendered(PAGES[0], count, "good").partition('id="troubles"')[2] for count in (20, 25))
    assert "more partition" not in few
    shown, _, folded = many.partition("</section>")[0].partition("<details><summary>5 more partitions</summary>")
    assert (shown.count('<th scope="row">'), folded.count('<th scope="row">')) == (20, 5)
    assert (folded.count("</table>"), folded.count("</details>")) == (1, 1)


def test_replicas_that_are_being_added_are_not_missed_yet() -> None:
    assert is_under_replicated(partition((1, 2), 1))
    assert not is_under_replicated(partition((1, 2), 1, adding_replicas=(3,)))
    assert is_under_replicated(partition((1,), 1, adding_replicas=(3,)))
    assert not is_under_replicated(partition((1, 2, 3), 1))
    assert not is_under_replicated(partition((1, 2, 3), 1, adding_replicas=(3,)))


def test_a_partition_says_what_its_missing_replicas_do() -> None:
    assert reason_of(partition((1,), 1, (1, 2, 3)), BROKERS) == (
        "broker 2 does not answer the controller; broker 3 is stopping"
    )
    directories = (DIRECTORY, FAILED)
    assert reason_of(partition((4,), 4, (4, 1), directories=directories), BROKERS) == (
        "the log directory of broker 1 failed"
    )
    assert reason_of(partition((1,), -1, (1, 2)), BROKERS) == (
        "only its last replicas in sync may lead: broker 1 is alive"
    )
    assert reason_of(partition((), -1, (1, 2), elr=(2,)), BROKERS) == (
        "only its last replicas in sync may lead: broker 2 does not answer the controller"
    )
    assert reason_of(partition((1,), 0, (0, 1)), {}) == "broker 0 is not registered"
    assert reason_of(partition((0,), 0, (0, 4)), BROKERS) == "broker 4 is behind", "node 0 may lead"


def test_the_nodes_are_brokers_controllers_and_this_one() -> None:
    endpoint = SimpleNamespace(name="CONTROLLER", host="there", port=9093)
    controllers = {1: SimpleNamespace(listeners={"CONTROLLER": endpoint}), 7: SimpleNamespace(listeners={})}
    brokers = {**BROKERS, 4: broker(4, rack="east")}
    image: Any = SimpleNamespace(brokers=brokers, controllers=controllers)
    totals = totals_of(partition((1, 2), 1, (1, 2)))
    nodes = nodes_of(image, NodeFacts(9, 7, totals.leaders, totals.replicas, totals.waiting, {}, {}))
    assert [each.id for each in nodes] == [1, 2, 3, 4, 7, 9]
    assert [each.roles for each in nodes] == [
        ("broker", "controller"),
        ("broker",),
        ("broker",),
        ("broker",),
        ("controller",),
        (),
    ]
    assert [each.state for each in nodes] == ["alive", "fenced", "stopping", "alive", "registered", "registered"]
    assert nodes[0].addresses == ("CONTROLLER://there:9093", "PLAINTEXT://here:9001")
    assert nodes[1].addresses == ("PLAINTEXT://here:9002",)
    assert [each.rack for each in nodes] == [None, None, None, "east", None, None]
    assert [(each.leaders, each.replicas) for each in nodes[:3]] == [(1, 1), (0, 1), (0, 0)]
    assert [each.id for each in nodes if each.leads_quorum] == [7]
    assert [each.id for each in nodes if each.is_here] == [9]


def health(
    found: Totals, *states: str, disks: tuple[DiskView, ...] = (), leader: int | None = 1, unready: str | None = None
) -> str:
    nodes = [broker_view(number, state) for number, state in enumerate(states, 1)]
    shown = health_of(nodes, found, disks, leader, unready)
    return f"{shown.state}: {shown.line}"


def test_the_health_counts_in_words() -> None:
    thin, lost, good = partition((1, 3), 1), partition((2,), -1), partition((1, 2, 3), 1)
    assert health(totals_of(lost, lost), "alive") == "bad: 2 partitions have no leader"
    assert health(totals_of(lost), "fenced", "alive", "fenced") == (
        "bad: 1 partition has no leader (brokers 1 and 3 are away)"
    )
    assert health(totals_of(thin), "fenced") == "warning: 1 partition lacks replicas in sync (broker 1 is away)"
    assert health(totals_of(thin, thin), "alive") == "warning: 2 partitions lack replicas in sync"
    assert health(totals_of(good, good), "alive", "stopping") == (
        "good: 2 partitions are all led and in sync; 1 broker is alive"
    )
    assert health(totals_of(good), "alive", leader=0).startswith("good"), "node 0 may lead the quorum"
    assert health(totals_of(good), "alive", leader=None).startswith("bad: no controller leads")
    assert health(totals_of(*[good] * 1_000), "alive").startswith("good: 1\u202f000 partitions are")


@pytest.mark.parametrize(
    ("total", "usable", "line"),
    [
        (100, 5, "good"),
        (100, 4, "warning: log directory /d of node 3 is nearly full"),
        (100, None, "good"),
        (0, 0, "good"),
        (1, 0, "warning: log directory /d of node 3 is nearly full"),
        (None, None, "bad: log directory /d of node 3 failed"),
    ],
)
def test_a_disk_is_nearly_full_below_five_percent(total: int | None, usable: int | None, line: str) -> None:
    state = "failed" if total is None else "working"
    disks = (DiskView(3, "/d", total, usable, 1, 1, state), DiskView(3, "/e", 100, 50, 1, 1, "working"))
    assert health(totals_of(), "alive", disks=disks).startswith(line)


# Topics.


def test_a_search_finds_parts_of_names_and_kafkas_own_topics_only_on_request() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__mine")
    assert is_wanted("Flights", "light", with_internal=False)
    assert is_wanted("Flights", "FLIGHT", with_internal=False)
    assert not is_wanted("Flights", "x", with_internal=True)
    assert not is_wanted("__consumer_offsets", "", with_internal=False)
    assert is_wanted("__consumer_offsets", "offsets", with_internal=True)
    assert not is_wanted("__consumer_offsets", "x", with_internal=True)


@pytest.mark.parametrize(
    ("total", "page", "found"),
    [
        (0, 1, (1, 1)),
        (0, 5, (1, 1)),
        (PER_PAGE, 1, (1, 1)),
        (PER_PAGE, 2, (1, 1)),
        (PER_PAGE + 1, 2, (2, 2)),
        (PER_PAGE + 1, 3, (2, 2)),
        (3 * PER_PAGE, 0, (1, 3)),
        (3 * PER_PAGE, -4, (1, 3)),
        (3 * PER_PAGE, 2, (2, 3)),
    ],
)
def test_there_is_always_a_page(total: int, page: int, found: tuple[int, int]) -> None:
    assert pages_of(total, page) == found


def test_a_topic_is_as_replicated_as_its_best_partition() -> None:
    topic = Topic("t", b"t" * 16)
    partitions = [
        partition((1, 2), 1, (1, 2)),
        partition((1, 2), 1, (1, 2, 3)),
        partition((1, 2), 1, (1, 2, 3), adding_replicas=(3,)),
        partition((2,), -1, (2,)),
        partition((0,), 0, (0,)),
    ]
    for number, each in enumerate(partitions):
        topic.partitions[number] = each
    shape = TopicShape()
    for each in partitions:
        shape = shape.with_partition(each)
    row = topic_row(topic, shape, TopicSize(4, 7, 1), TopicRate(2.0, 3.0, 4.0), ReaderLag(9, "readers", is_group=True))
    assert (row.name, row.topic_id, row.is_internal, row.partitions, row.replication) == (
        "t",
        to_string(b"t" * 16),
        False,
        5,
        3,
    )
    assert (row.without_leader, row.under_replicated) == (1, 1)
    assert (row.local_partitions, row.local_records, row.local_bytes) == (4, 7, 1)
    assert (row.records_in_per_s, row.bytes_in_per_s, row.bytes_out_per_s) == (2.0, 3.0, 4.0)
    assert (row.lag, row.reader, row.reader_is_group) == (9, "readers", True)
    empty = topic_row(Topic("e", b"e" * 16), TopicShape(), TopicSize(), NO_RATE, None)
    assert (empty.replication, empty.records_in_per_s, empty.lag, empty.reader) == (0, None, None, None)
    assert not empty.reader_is_group


def test_a_config_says_where_its_value_is_from() -> None:
    values = {"value": "3", "default": "2"}
    row = config_row("a.b", values, TOPIC_SOURCE, "int", "Use <code>x</code>")
    assert (row.name, row.value, row.source, row.default, row.type) == ("a.b", "3", "this topic", "2", "int")
    assert (row.documentation, row.is_set) == ("Use x", True)
    assert (row.words, row.default_words, row.typed) == ("", "", "3")
    kept = config_row("retention.ms", {"value": "3600000", "default": "123456789"}, TOPIC_SOURCE, "long", "")
    assert (kept.words, kept.default_words, kept.typed) == ("1 hour", "about 1.4 days", "1 hour")
    assert config_row("retention.ms", {"value": "123456789"}, TOPIC_SOURCE, "long", "").typed == "123456789"
    of_hours = {"value": "1000", "default": "168", "default_name": "log.retention.hours"}
    assert config_row("log.retention.ms", of_hours, TOPIC_SOURCE, "long", "").default_words == "7 days"
    assert config_row("retention.ms", {}, TOPIC_SOURCE, "long", "").typed == ""
    for source, words in SOURCES.items():
        row = config_row("a.b", {}, source, "int", "")
        assert (row.source, row.is_set, row.value, row.default) == (words, source == TOPIC_SOURCE, None, None)
    assert config_row("a.b", {}, 99, "int", "").source == "unknown"


def test_breaks_of_kafkas_texts_separate_words() -> None:
    assert plain_text("one<br>two<p>three<ul><li>four<li>five</ul><b>s</b>ix") == "one two three four fivesix"


def test_retention_is_written_once_where_most_partitions_have_the_same() -> None:
    def row(line: str | None) -> PartitionRow:
        deletion = None if line is None else RetentionDeletion(0, 0, None, line)
        return PartitionRow(0, 1, 1, (1,), (1,), 0, 0, 0, True, deletion, None)

    assert usual_deletion([]) is None
    assert usual_deletion([row("a"), row(None)]) is None
    assert usual_deletion([row("b"), row("a"), row(None), row("a")]) == "a"


def test_a_topic_says_how_long_it_keeps_records() -> None:
    values = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
    rows = [config_row(name, {"value": value}, 5, "long", "") for name, value in values.items()]
    assert policy_and_retention(rows) == ("delete", "7 days")
    assert policy_and_retention(()) == (None, None)


# Retention.


class Piece:
    """A segment, as retention sees it."""

    def __init__(self, base_offset: int, size: int, largest_timestamp: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.largest_timestamp = largest_timestamp


def test_the_next_deletion_is_by_time_by_size_or_never() -> None:
    pieces = [Piece(0, 100, 1_000), Piece(10, 100, 2_000)]

    def line(of: LogConfig, segments: list[Piece] = pieces) -> tuple[str, int | None]:
        found = next_deletion(segments, 20, 0, 20, of, 1_500)
        assert (found.segments_now, found.bytes_now) == (0, 0)
        return found.line, found.next_ms

    aging = "the oldest segment, once its last record is older than retention.ms"
    growing = "the oldest segment, once the log is larger than retention.bytes"
    unlimited = "nothing: retention.ms and retention.bytes are unlimited"
    assert line(LogConfig(retention_ms=5_000)) == (aging, 6_001)
    assert line(LogConfig(retention_ms=5_000, retention_bytes=900)) == (aging, 6_001)
    assert line(LogConfig(retention_ms=-1, retention_bytes=900)) == (growing, None)
    assert line(LogConfig(retention_ms=-1, retention_bytes=200)) == (growing, None)
    assert line(LogConfig(retention_ms=-1, retention_bytes=-1)) == (unlimited, None)
    assert line(LogConfig(cleanup_delete=False, retention_ms=5_000))[0].startswith("nothing: cleanup.policy")
    assert line(LogConfig(retention_ms=0), [Piece(0, 0, 9_000)]) == ("nothing: there are no records", None)
    assert line(LogConfig(retention_ms=0), [Piece(0, 1, 9_000)])[1] == 9_001
    assert line(LogConfig(retention_ms=5_000), [])[1] is None


def test_all_segments_may_be_too_old() -> None:
    pieces = [Piece(0, 100, 1_000), Piece(10, 50, 2_000)]
    found = next_deletion(pieces, 20, 0, 20, LogConfig(retention_ms=0), 9_000)
    assert (found.segments_now, found.bytes_now, found.next_ms) == (2, 150, None)
    assert found.line == "the next check deletes 2 of 2 segments"
    found = next_deletion(pieces, 20, 0, 20, LogConfig(retention_bytes=50, retention_ms=5_000), 2_000)
    assert (found.segments_now, found.bytes_now, found.next_ms) == (1, 100, 7_001)


# Groups.


def test_a_story_counts_the_time_of_a_rebalance_and_names_the_last_that_came() -> None:
    ann, bob = ("a-1", "ann", "/10.0.0.1"), ("b-1", "", "10.0.0.2")
    rows = story_of(
        [
            Event(500, stories.GENERATION, detail="1"),
            Event(900, stories.JOINED, *ann),
            Event(1_000, stories.REBALANCE),
            Event(2_500, stories.GENERATION, detail="2"),
            Event(3_000, stories.REBALANCE, detail="why"),
            Event(3_100, stories.REJOINED, *ann),
            Event(3_200, stories.JOINED, *bob),
            Event(4_000, stories.GENERATION, detail="3"),
            Event(5_000, stories.GENERATION, detail="4"),
            Event(6_000, stories.REBALANCE),
            Event(6_100, stories.JOINED, *ann),
            Event(6_999, stories.GENERATION, detail="5"),
            Event(7_000, stories.ASSIGNED, detail="6, members: 2"),
        ]
    )
    assert [(each.text, each.after_s) for each in reversed(rows)] == [
        ("generation 1", None),
        ("ann at 10.0.0.1 joined", None),
        ("a rebalance began", None),
        ("generation 2", 1.5),
        ("a rebalance began: why", None),
        ("ann at 10.0.0.1 asked for a rebalance", None),
        ("a client without an id at 10.0.0.2 joined", None),
        ("generation 3; the last new member was a client without an id at 10.0.0.2", 1.0),
        ("generation 4", None),
        ("a rebalance began", None),
        ("ann at 10.0.0.1 joined", None),
        ("generation 5", 0.999),
        ("assignment of epoch 6, members: 2", None),
    ]
    assert rows[0] == StoryRow(7_000, "assignment of epoch 6, members: 2", None)
    assert member_label(Event(0, stories.LEFT, *ann)) == "ann at 10.0.0.1"


@pytest.mark.parametrize(
    ("committed", "start", "end", "left"),
    [
        (3, 0, 10, 7),
        (3, None, 10, 7),
        (12, 0, 10, 0),
        (3, None, None, None),
        (None, 0, 10, None),
        (None, 10, 10, 0),
        (None, None, 10, None),
        (None, None, 0, 0),
        (None, None, None, None),
    ],
)
def test_the_lag_without_a_commit_is_known_only_in_an_empty_log(
    committed: int | None, start: int | None, end: int | None, left: int | None
) -> None:
    assert records_left(committed, start, end) == left


# Connections.


def test_the_loops_time_is_shared_by_kind() -> None:
    assert loop_shares({}) == ()
    found = loop_shares({"loop a": 0.15, "loop b": 0.0, "other": 5.0, "loop c": 0.2500004, "loop collector": 0.01})
    assert [(each.what, each.share) for each in found] == [("c", 0.25), ("a", 0.15), ("the garbage collector", 0.01)]


# Segments.


def test_a_batch_shows_its_header() -> None:
    records = [Record(timestamp=each, value=b"x") for each in (5, 9)]
    header = parse_header(
        build_batch(
            records, base_offset=7, partition_leader_epoch=3, producer_id=11, producer_epoch=2, base_sequence=4,
            transactional=True,
        )
    )  # fmt: skip
    (row,) = batch_rows([(100, header)])
    assert (row.position, row.base_offset, row.last_offset, row.records) == (100, 7, 8, 2)
    assert (row.bytes, row.codec) == (header.size, "none")
    assert (row.first_timestamp_ms, row.max_timestamp_ms, row.leader_epoch) == (5, 9, 3)
    assert (row.producer_id, row.producer_epoch, row.base_sequence) == (11, 2, 4)
    assert (row.is_transactional, row.is_control) == (True, False)
    assert int(row.crc, 16) == header.crc & 0xFFFFFFFF
    assert len(row.crc) == 8
    marker = parse_header(build_batch(records, control=True))
    (row,) = batch_rows([(0, marker)])
    assert (row.is_transactional, row.is_control) == (False, True)
    for number in range(8):
        (row,) = batch_rows([(0, header._replace(attributes=number, crc=-1))])
        assert row.codec == (CODECS[number] if number < len(CODECS) else f"unknown ({number})")
        assert row.crc == "ffffffff"


# Records.


def found(number: int, *, offset: int, timestamp_ms: int, **more: Any) -> FoundRecord:
    usual: dict[str, Any] = {
        "partition": number,
        "offset": offset,
        "timestamp_ms": timestamp_ms,
        "is_append_time": False,
        "key": b"k",
        "key_bytes": 1,
        "value": b"v",
        "value_bytes": 1,
        "headers": (),
        "headers_left_out": 0,
        "is_transactional": False,
        "control": None,
        "producer_id": -1,
    }
    return FoundRecord(**{**usual, **more})


def test_a_record_shows_its_contents_by_their_schemas() -> None:
    headers = (("name", True, b"value", 9), ("none", False, None, -1))
    record = found(2, offset=7, timestamp_ms=5, headers=headers, headers_left_out=3, is_transactional=True)
    row = row_of(record, "auto", {b"v": ContentBySchema(5, "avro", "shown", "a.B")}, 3)
    assert row.segment == 3
    assert (row.partition, row.offset, row.timestamp_ms, row.timestamp_type) == (2, 7, 5, "CreateTime")
    assert (row.key.text, row.value.text, row.value.form, row.value.schema_id) == ("k", "shown", "avro", 5)
    assert [(each.name, each.name_is_cut, each.value.text, each.value.bytes) for each in row.headers] == [
        ("name", True, "value", 9),
        ("none", False, "", -1),
    ]
    assert (row.headers_left_out, row.is_transactional, row.control, row.producer_id) == (3, True, None, -1)
    marker = row_of(found(0, offset=0, timestamp_ms=0, is_append_time=True, key=None, control="commit"), "auto")
    assert (marker.timestamp_type, marker.key.form, marker.control) == ("LogAppendTime", "null", "commit")
    keyed = row_of(found(0, offset=0, timestamp_ms=0), "auto", {b"k": ContentBySchema(5, "avro", "by key", "")})
    assert (keyed.key.text, keyed.value.text) == ("by key", "v")


def test_records_of_several_partitions_come_in_the_order_of_their_times() -> None:
    records = [
        found(1, offset=5, timestamp_ms=30),
        found(0, offset=9, timestamp_ms=10),
        found(0, offset=2, timestamp_ms=30),
        found(0, offset=3, timestamp_ms=30),
    ]
    oldest = [(each.partition, each.offset) for each in in_order(records, 3, OLDEST)]
    assert oldest == [(0, 9), (0, 2), (0, 3)]
    newest = [(each.partition, each.offset) for each in in_order(records, 3, NEWEST)]
    assert newest == [(1, 5), (0, 3), (0, 2)]


def test_places_that_cannot_be_read_are_named() -> None:
    assert gaps_of([Unreadable(1, 7, "damaged")]) == (RecordsGap(1, 7, "damaged"),)


def test_before_a_topic_is_chosen_nothing_is_shown() -> None:
    page = nothing_chosen(("a", "b"), 3, 7)
    assert (page.topics, page.topics_left_out, page.now_ms, page.start) == (("a", "b"), 3, 7, NEWEST)
    assert (page.partitions, page.partitions_left_out, page.most, page.looked_at) == (0, 0, 50, 0)
    assert (page.form, page.conditions, page.unused, page.stopped) == ("auto", (), (), "")
    assert (page.committed, page.is_live, page.may_write) == (False, False, False)
    assert (page.partition, page.offset, page.next_offset, page.records) == (None, None, None, ())
