"""Quotas on a whole node: the answers of throttled clients, the connections that wait, and what costs nothing."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from running_node import RunningNode, start

from kpybroker.cli import main
from kpywire import api, error_codes
from kpywire.codec import encode
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.quota_requests import alteration, entry, set_quotas
from support.raw_client import RawClient
from support.raw_requests import batch_of, create, creation, deletion, eventually, now_ms, offset_at, topic_named


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    directory: Path = tmp_path_factory.mktemp("quotas")
    running = start(directory)
    with RawClient(running.port, client_id="admin") as raw:
        create(raw, "t")
    yield running
    running.stop()


@pytest.fixture
def admin(node: RunningNode) -> Iterator[RawClient]:
    """A client without quotas. The test's quotas are removed at its end."""
    eventually(lambda: muted(node) == 0, "the throttled clients of other tests to be served")
    with RawClient(node.port, client_id="admin") as raw:
        yield raw
        found = raw.call(DescribeClientQuotasRequest(components=[], strict=False), 1).entries
        for each in found:
            names = {part.entity_type: part.entity_name for part in each.entity}
            set_quotas(raw, names, **{value.key: None for value in each.values})


def production(size: int, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch_of(now_ms(), size=size))
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(session_id: int = 0, epoch: int = -1, *, wants: bool = True, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000, log_start_offset=-1)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=[partition])] if wants else [], forgotten_topics_data=[],
    )  # fmt: skip


def end_offset(raw: RawClient) -> int:
    return offset_at(raw, "t", -1)[2]


def muted(node: RunningNode) -> int:
    server = node.node.server
    assert server is not None
    return int(node.call(lambda: len(server.mutes)))


def test_a_produce_above_its_quota_is_answered_at_once_and_the_next_request_waits(
    node: RunningNode, admin: RawClient
) -> None:
    set_quotas(admin, {"client-id": "p"}, producer_byte_rate=10_000)
    with RawClient(node.port, client_id="p") as raw:
        assert raw.call(production(50_000), 9).throttle_time_ms == 0
        throttled = raw.call(production(54_000), 9)
        assert throttled.responses[0].partition_responses[0].error_code == 0
        assert 100 < throttled.throttle_time_ms < 2_000
        began_s = time.monotonic()
        raw.send(production(10), 9)
        raw.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.sock.recv(1)
        assert muted(node) == 1
        raw.sock.settimeout(30)
        raw.receive(api.PRODUCE, 9)
        assert (time.monotonic() - began_s) * 1_000 >= throttled.throttle_time_ms - 20


def test_an_old_version_of_produce_says_the_same(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "p3"}, producer_byte_rate=10_000)
    with RawClient(node.port, client_id="p3") as raw:
        assert raw.call(production(104_000), 3).throttle_time_ms > 100


def test_a_producer_with_acks_0_is_muted_too(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "p0"}, producer_byte_rate=10_000)
    with RawClient(node.port, client_id="p0") as raw:
        raw.send(production(103_000, acks=0), 9)
        eventually(lambda: muted(node) == 1, "a muted connection")
        raw.sock.close()
        eventually(lambda: muted(node) == 0, "the end of a muted connection")


def test_requests_in_one_piece_are_answered_before_the_wait_or_after_it(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "many"}, producer_byte_rate=10_000)
    with RawClient(node.port, client_id="many") as raw:
        frames = [raw.frame(production(30_000), 9) for _ in range(3)]
        raw.sock.sendall(b"".join([*frames, raw.frame(production(14_000), 9), raw.frame(production(10), 9)]))
        answers = [raw.receive(api.PRODUCE, 9).throttle_time_ms for _ in range(4)]
        assert [each > 0 for each in answers] == [False, False, False, True]
        raw.receive(api.PRODUCE, 9)
        assert raw.received_id == 5


def test_a_fetch_above_its_quota_gets_nothing_now_and_the_same_later(node: RunningNode, admin: RawClient) -> None:
    default_of_everybody = {"user": "ANONYMOUS", "client-id": None}
    set_quotas(admin, default_of_everybody, consumer_byte_rate=4_900)
    with RawClient(node.port, client_id="c") as raw:
        first = raw.call(fetch(epoch=0), 12)
        assert first.throttle_time_ms > 0
        assert (first.responses, first.session_id) == ([], 0)
        set_quotas(admin, default_of_everybody, consumer_byte_rate=None)
        opened = raw.call(fetch(epoch=0), 12)
        assert opened.throttle_time_ms == 0
        assert opened.session_id
        whole = len(opened.responses[0].partitions[0].records)
        assert whole > 50_000
        set_quotas(admin, default_of_everybody, consumer_byte_rate=4_500)
        throttled = raw.call(fetch(opened.session_id, 1), 12)
        assert throttled.throttle_time_ms > 0
        assert (throttled.responses, throttled.session_id) == ([], opened.session_id)
        set_quotas(admin, default_of_everybody, consumer_byte_rate=None)
        later = raw.call(fetch(opened.session_id, 2, wants=False), 12)
        assert len(later.responses[0].partitions[0].records) == whole


@pytest.mark.parametrize("version", [4, 7, 12])
@pytest.mark.parametrize("topics", [1, 60])
def test_a_fetch_is_charged_for_the_bytes_that_it_gets(
    node: RunningNode, admin: RawClient, version: int, topics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quotas(admin, {"client-id": "exact"}, consumer_byte_rate=1e9)
    stage = node.node.dispatcher and node.node.dispatcher.stage
    assert stage is not None
    charged: list[int] = []
    monkeypatch.setattr(stage, "fetched", lambda _call, answer_bytes: charged.append(answer_bytes) or 0)
    with RawClient(node.port, client_id="exact") as raw:
        for _ in range(2):  # the second answer to a long request is put together of what is remembered
            request = fetch(epoch=-1)
            request.topics += [
                FetchTopic(topic=f"missing-{number}", partitions=request.topics[0].partitions)
                for number in range(topics - 1)
            ]
            response = raw.call(request, version)
            assert len(response.responses) == topics
            assert charged.pop() == len(encode(response, version)) + 4


def test_the_size_of_an_answer_is_bounded_by_the_quota(node: RunningNode, admin: RawClient) -> None:
    for _ in range(20):
        admin.call(production(1_000), 9)
    newest = FetchPartition(partition=0, fetch_offset=end_offset(admin) - 20, partition_max_bytes=1 << 20)
    set_quotas(admin, {"client-id": "small"}, consumer_byte_rate=1_000)
    with RawClient(node.port, client_id="small") as raw:
        request = fetch()
        request.topics = [FetchTopic(topic="t", partitions=[newest])]
        answer = raw.call(request, 12)
        if not answer.responses:  # records and the rest of the answer together are a little above the quota
            assert 0 < answer.throttle_time_ms < 200
            answer = raw.call(request, 12)
        assert 8_000 < len(answer.responses[0].partitions[0].records) <= 10_000


def test_the_time_of_requests_is_bounded_to_one_window(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "busy"}, request_percentage=0.0001)
    with RawClient(node.port, client_id="busy") as raw:
        answer = raw.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        assert answer.throttle_time_ms == 1_000
        assert muted(node) == 1


def test_a_large_request_is_answered_before_its_connection_waits(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "large"}, request_percentage=0.0001)
    names = [MetadataRequestTopic(name=f"no-such-topic-{number}") for number in range(2_000)]
    with RawClient(node.port, client_id="large") as raw:
        answer = raw.call(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
        assert (len(answer.topics), answer.throttle_time_ms) == (2_000, 1_000)
        assert muted(node) == 1


def test_an_answer_that_came_late_is_sent_before_its_connection_waits(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "late"}, request_percentage=0.0001)
    waiting = FetchPartition(partition=0, fetch_offset=end_offset(admin), partition_max_bytes=1 << 20)
    request = fetch(max_wait_ms=30)
    request.topics = [FetchTopic(topic="t", partitions=[waiting])]
    with RawClient(node.port, client_id="late") as raw:
        answer = raw.call(request, 12)
        assert (answer.throttle_time_ms, answer.responses) == (1_000, [])
        assert muted(node) == 1


def test_other_clients_are_not_concerned(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"client-id": "slow"}, producer_byte_rate=1, request_percentage=0.0001)
    with RawClient(node.port, client_id="fast") as raw:
        assert raw.call(production(50_000), 9).throttle_time_ms == 0
        assert (
            raw.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3).throttle_time_ms == 0
        )


def test_without_quotas_handlers_are_as_before(node: RunningNode, admin: RawClient) -> None:
    dispatcher: Any = node.node.dispatcher
    set_quotas(admin, {"client-id": "x"}, producer_byte_rate=10)
    eventually(lambda: dispatcher.stage is not None, "the stage")
    around = dispatcher.served[api.PRODUCE, 9].handle
    set_quotas(admin, {"client-id": "x"}, producer_byte_rate=None)
    eventually(lambda: dispatcher.stage is None, "no stage")
    plain = dispatcher.served[api.PRODUCE, 9].handle
    assert plain is not around
    assert plain.__module__ == "kpybroker.requests.handlers.produce"


def test_mutations_are_refused_by_strict_requests_only(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"user": "ANONYMOUS"}, controller_mutation_rate=1)
    with RawClient(node.port, client_id="creator") as raw:
        answer = raw.call(creation(*(topic_named(name, 8) for name in ("m1", "m2", "m3"))), 7)
        codes = {each.name: each.error_code for each in answer.topics}
        assert codes == {"m1": 0, "m2": 0, "m3": error_codes.THROTTLING_QUOTA_EXCEEDED}
        assert 4_000 < answer.throttle_time_ms <= 5_000
    with RawClient(node.port, client_id="creator") as raw:
        old = raw.call(creation(topic_named("m4")), 5)
        assert old.topics[0].error_code == 0
        assert old.throttle_time_ms > 4_000
    set_quotas(admin, {"user": "ANONYMOUS"}, controller_mutation_rate=None)
    admin.call(deletion("m1", "m2", "m4"), 6)


def test_connections_of_an_address_above_its_quota_are_closed_late_and_unread(
    node: RunningNode, admin: RawClient
) -> None:
    set_quotas(admin, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    server = node.node.server
    assert server is not None
    eventually(lambda: server.throttle_address is not None, "the quota of addresses")
    opened = [socket.create_connection(("127.0.0.1", node.port), timeout=5) for _ in range(12)]
    try:
        last = opened[-1]
        last.settimeout(5)
        assert last.recv(1) == b""
        assert node.call(lambda: len(server.connections)) < 13
    finally:
        for each in opened:
            each.close()
    set_quotas(admin, {"ip": "127.0.0.1"}, connection_creation_rate=None)


def test_refusals_are_kafkas(admin: RawClient) -> None:
    request = alteration(
        entry({}, {"producer_byte_rate": 1}),
        entry({"planet": "x"}, {"producer_byte_rate": 1}),
        entry({"user": ""}, {"producer_byte_rate": 1}),
        entry({"ip": "127.0.0.1", "user": "u"}, {"connection_creation_rate": 1}),
        entry({"ip": "not an address"}, {"connection_creation_rate": 1}),
        entry({"user": "a"}, {"nope": 1}),
        entry({"ip": None}, {"producer_byte_rate": 1}),
        entry({"user": "b"}, {"producer_byte_rate": 0}),
        entry({"user": "c"}, {"producer_byte_rate": 1.5}),
        entry({"user": "d"}, {"producer_byte_rate": 1e30}),
        entry({"user": "e"}, {"request_percentage": 12.5}),
        entry({"user": "f"}, {"producer_byte_rate": None}),
        entry({"user": "g"}, {"producer_byte_rate": float("nan")}),
        validate_only=True,
    )
    answers = [(each.error_code, each.error_message) for each in admin.call(request, 1).entries]
    assert answers == [
        (42, "Invalid empty client quota entity"),
        (42, "Unhandled client quota entity type: planet"),
        (42, "Empty user not supported"),
        (42, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"),
        (42, "not an address is not a valid IP or resolvable host."),
        (42, "Invalid configuration key nope"),
        (42, "Invalid configuration key producer_byte_rate"),
        (42, "Quota producer_byte_rate must be greater than 0"),
        (42, "producer_byte_rate cannot be a fractional value."),
        (42, "Proposed value for producer_byte_rate is too large for a LONG."),
        (0, None),
        (0, None),
        (42, "Quota producer_byte_rate must be a finite number"),
    ]


def test_quotas_that_were_set_are_described(admin: RawClient) -> None:
    set_quotas(admin, {"user": "u", "client-id": None}, producer_byte_rate=5, request_percentage=1.5)
    wanted = [ComponentData(entity_type="user", match_type=0, match="u")]
    (found,) = admin.call(DescribeClientQuotasRequest(components=wanted, strict=False), 1).entries
    assert {value.key: value.value for value in found.values} == {"producer_byte_rate": 5, "request_percentage": 1.5}


@pytest.mark.usefixtures("admin")
def test_the_command_line_lists_what_it_sets(node: RunningNode) -> None:
    def quotas(*words: str) -> Any:
        return CliRunner().invoke(main, ["quotas", *words, "-b", f"127.0.0.1:{node.port}"])

    assert quotas("list").output == "No quotas are set.\n"
    altered = quotas("set", "producer_byte_rate=1000", "request_percentage=2.5", "--user", "alice")
    assert (altered.output, altered.exit_code) == ("Altered the quotas of user alice\n", 0)
    assert quotas("set", "consumer_byte_rate=7", "--user-default", "--client-id", "x", "--dry-run").exit_code == 0
    shown = quotas("list").output.split("\n")
    assert [line.split() for line in shown[1:3]] == [
        ["user", "alice", "producer_byte_rate", "1000"],
        ["user", "alice", "request_percentage", "2.5"],
    ]
    assert quotas("remove", "producer_byte_rate", "--user", "alice").exit_code == 0
    assert "producer_byte_rate" not in quotas("list").output
    refused = quotas("set", "producer_byte_rate=0", "--user", "alice")
    assert refused.exit_code == 1
    assert "Quota producer_byte_rate must be greater than 0" in refused.output
    for words in (("set", "produce_byte_rate=1", "--user", "a"), ("set", "x", "--user", "a"), ("remove", "x")):
        assert quotas(*words).exit_code == 2


def test_metrics_show_rates_and_waits(node: RunningNode, admin: RawClient) -> None:
    set_quotas(admin, {"user": "ANONYMOUS"}, producer_byte_rate=10_000)
    with RawClient(node.port, client_id="metered") as raw:
        raw.call(production(105_000), 9)
    page = urlopen(f"http://127.0.0.1:{node.node.http_port}/metrics", timeout=10).read().decode()
    shown = {line.split(" ")[0]: float(line.split(" ")[1]) for line in page.split("\n") if "ANONYMOUS" in line}
    rate = next(value for name, value in shown.items() if name.startswith("kafka_server_produce_byte_rate"))
    throttle = next(value for name, value in shown.items() if name.startswith("kafka_server_produce_throttle_time"))
    assert rate > 0
    assert throttle > 0
