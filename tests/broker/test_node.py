"""A node starts, serves, loses a directory, stops, and shows what it counts."""

import http.client
import re
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from running_node import BreakableDisk, RunningNode, start

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.topic import directory_is_reserved
from kpywire import api, error_codes
from kpywire.batch import ATTRIBUTES_POSITION
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_log_dirs import DescribeLogDirsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from oracle import has_ipv6_loopback
from support.raw_client import RawClient
from support.waiting import eventually

PRODUCE_VERSION = 9


@pytest.fixture
def nodes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def running(stack: ExitStack, node: RunningNode) -> RunningNode:
    stack.callback(node.stop)
    return node


def create(client: RawClient, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    assert answer.topics[0].error_code == error_codes.NONE


def produce(client: RawClient, topic: str, value: bytes, partition: int = 0, acks: int = -1) -> int:
    """The error code."""
    batch = build_batch([Record(timestamp=time.time_ns() // 1_000_000, value=value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = client.call(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data]), PRODUCE_VERSION)
    return int(answer.responses[0].partition_responses[0].error_code)


def read(client: RawClient, topic: str, partition: int = 0) -> list[bytes | None]:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    answer = client.call(fetch, 12).responses[0].partitions[0]
    assert answer.error_code == error_codes.NONE
    return [record.value for record in read_records(answer.records)]


def test_the_only_voter_may_close_its_listener_until_the_acls_are_loaded(tmp_path: Path) -> None:
    node = start(
        tmp_path,
        **{
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "early.start.listeners": "",
        },
    )
    try:
        with RawClient(node.node.ports["CONTROLLER"]) as raw:
            assert raw.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3).api_keys
    finally:
        node.stop()


def test_written_records_are_there_after_a_clean_restart(tmp_path: Path) -> None:
    for round_number in range(3):
        node = start(tmp_path)
        with RawClient(node.port) as client:
            if round_number == 0:
                create(client, "kept", partitions=2)
            assert produce(client, "kept", str(round_number).encode(), partition=1) == error_codes.NONE
            assert read(client, "kept", 1) == [str(number).encode() for number in range(round_number + 1)]
        node.stop()
        assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_sizes_of_unused_logs_are_measured_without_opening_them(tmp_path: Path) -> None:
    def weighed(node: RunningNode) -> dict[str, int]:
        with RawClient(node.port) as client:
            (directory,) = client.call(DescribeLogDirsRequest(topics=None), 5).results
            assert directory.error_code == error_codes.NONE
            return {topic.name: topic.partitions[0].partition_size for topic in directory.topics}

    node = start(tmp_path)
    with RawClient(node.port) as client:
        create(client, "full")
        create(client, "empty")
        for _ in range(3):
            assert produce(client, "full", b"v" * 100) == error_codes.NONE
    eventually(lambda: "empty" in weighed(node), "the files of the empty log")  # a thread makes them
    before = weighed(node)
    node.stop()
    assert before["full"] > 300
    assert before["empty"] == 0
    node = start(tmp_path)
    try:
        assert weighed(node) == before
        broker = node.node.broker
        assert broker is not None
        assert not any(log.is_open for log in node.call(lambda: [*map(broker.replicas.find_log, broker.replicas)]))
    finally:
        node.stop()


def test_a_deleted_topic_that_comes_again_starts_empty(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, start(tmp_path))
    with RawClient(node.port) as client:
        for _ in range(3):
            create(client, "again")
            assert produce(client, "again", b"v") == error_codes.NONE
            assert read(client, "again") == [b"v"]
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=10_000)
            assert client.call(deletion, 6).responses[0].error_code == error_codes.NONE
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="again")], allow_auto_topic_creation=False)
            assert client.call(asked, 12).topics[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert not (tmp_path / "again-0").exists()


def test_deleted_records_stay_deleted_whatever_happens_after_the_answer(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, start(tmp_path / "data"))
    with RawClient(node.port) as client:
        create(client, "t", partitions=2)
        for value in (b"a", b"b", b"c"):
            assert produce(client, "t", value) == error_codes.NONE
        partitions = [
            DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in ((0, 2), (1, 0))
        ]
        topics = [DeleteRecordsTopic(name="t", partitions=partitions)]
        answer = client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        assert [each.low_watermark for each in answer.topics[0].partitions] == [2, 0]
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
    again = running(nodes, start(tmp_path / "copy"))
    with RawClient(again.port) as client:
        wanted = FetchPartition(partition=0, fetch_offset=2, log_start_offset=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[wanted])])
        assert client.call(fetch, 12).responses[0].partitions[0].log_start_offset == 2


def test_damage_is_an_error_of_its_partition_and_logged_once(
    nodes: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = start(tmp_path)
    with RawClient(node.port) as client:
        create(client, "t", partitions=3)
        assert [produce(client, "t", b"v" * 100, partition) for partition in range(3)] == [error_codes.NONE] * 3
    node.stop()
    record, framing = (tmp_path / f"t-{partition}" / f"{0:020d}.log" for partition in (0, 1))
    content = bytearray(record.read_bytes())
    content[ATTRIBUTES_POSITION + 1] = 1  # so its records would be compressed, which they are not
    record.write_bytes(content)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n2\nt 0 1\nt 1 1\n")
    framing.write_bytes(bytes(50) + framing.read_bytes())
    node = running(nodes, start(tmp_path))
    with RawClient(node.port) as client:
        for _ in range(3):
            asked = [ListOffsetsPartition(partition_index=partition, timestamp=0) for partition in range(3)]
            topics = [ListOffsetsTopic(name="t", partitions=asked)]
            (answered,) = client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
            codes = [answer.error_code for answer in answered.partitions]
            assert codes == [error_codes.CORRUPT_MESSAGE, error_codes.KAFKA_STORAGE_ERROR, error_codes.NONE]
    reported = [entry for entry in caplog.records if entry.levelname == "ERROR"]
    assert len(reported) == 1
    assert str(framing) in reported[0].getMessage()


def test_a_directory_that_fails_goes_offline_alone(nodes: ExitStack, tmp_path: Path) -> None:
    disk = BreakableDisk()
    first, second = tmp_path / "first", tmp_path / "second"
    node = running(nodes, RunningNode({"log.dirs": f"{first},{second}"}, disk))
    with RawClient(node.port) as client:
        create(client, "spread", partitions=4)
        assert [produce(client, "spread", b"before", partition) for partition in range(4)] == [error_codes.NONE] * 4
        on_second = [number for number in range(4) if (second / f"spread-{number}").exists()]
        assert len(on_second) == 2
        disk.break_under = str(second)
        codes = {partition: produce(client, "spread", b"after", partition) for partition in range(4)}
        assert {p for p, code in codes.items() if code != error_codes.NONE} == set(on_second)
        assert {codes[p] for p in on_second} == {error_codes.KAFKA_STORAGE_ERROR}
        for partition in set(range(4)) - set(on_second):
            assert read(client, "spread", partition) == [b"before", b"after"]
        results = client.call(DescribeLogDirsRequest(topics=None), 4).results
        described = {result.log_dir: result.error_code for result in results}
        assert described == {str(first): error_codes.NONE, str(second): error_codes.KAFKA_STORAGE_ERROR}

        def leaderless() -> set[int]:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="spread")], allow_auto_topic_creation=False)
            partitions = client.call(asked, 12).topics[0].partitions
            return {p.partition_index for p in partitions if p.leader_id == -1}

        eventually(lambda: leaderless() == set(on_second))
    assert node.failures == []


def test_logs_in_a_directory_that_is_gone_at_the_start_are_missed_not_made_anew(
    nodes: ExitStack, tmp_path: Path
) -> None:
    first, second, away = tmp_path / "first", tmp_path / "second", tmp_path / "away"
    settings = {"log.dirs": f"{first},{second}"}
    everybody = set(range(4))

    def leaders(client: RawClient) -> dict[int, int]:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="spread")], allow_auto_topic_creation=False)
        return {p.partition_index: p.leader_id for p in client.call(asked, 12).topics[0].partitions}

    node = RunningNode(settings)
    with RawClient(node.port) as client:
        create(client, "spread", partitions=4)
        assert {produce(client, "spread", b"before", partition) for partition in everybody} == {error_codes.NONE}
        broker = node.node.broker
        assert broker is not None
        replicas = broker.image.topics["spread"].partitions.values()
        eventually(lambda: not any(directory_is_reserved(replica.directory_of(1)) for replica in replicas))
    node.stop()
    missed = {number for number in everybody if (second / f"spread-{number}").exists()}
    assert len(missed) == 2
    second.rename(away)
    second.write_bytes(b"")
    node = RunningNode(settings)
    with RawClient(node.port) as client:
        assert {index for index, leader in leaders(client).items() if leader == -1} == missed
        codes = {partition: produce(client, "spread", b"after", partition) for partition in everybody}
        assert {partition for partition, code in codes.items() if code != error_codes.NONE} == missed
        results = client.call(DescribeLogDirsRequest(topics=None), 4).results
        assert {result.log_dir: result.error_code for result in results} == {
            str(first): error_codes.NONE,
            str(second): error_codes.KAFKA_STORAGE_ERROR,
        }
    node.stop()
    assert not [number for number in missed if (first / f"spread-{number}").exists()]
    second.unlink()
    away.rename(second)
    node = running(nodes, RunningNode(settings))
    with RawClient(node.port) as client:
        assert set(leaders(client).values()) == {1}
        for partition in everybody:
            expected = [b"before"] if partition in missed else [b"before", b"after"]
            assert read(client, "spread", partition) == expected


def test_concurrent_produces_to_a_failing_disk_all_fail(nodes: ExitStack, tmp_path: Path) -> None:
    disk = BreakableDisk()
    first, second = tmp_path / "first", tmp_path / "second"
    node = running(nodes, RunningNode({"log.dirs": f"{first},{second}"}, disk))
    clients = [nodes.enter_context(RawClient(node.port)) for _ in range(8)]
    create(clients[0], "spread", partitions=4)
    assert [produce(clients[0], "spread", b"before", partition) for partition in range(4)] == [error_codes.NONE] * 4
    on_second = next(number for number in range(4) if (second / f"spread-{number}").exists())
    on_first = next(number for number in range(4) if (first / f"spread-{number}").exists())
    disk.break_under = str(second)
    with ThreadPoolExecutor(len(clients)) as threads:
        held = threads.submit(node.call, lambda: time.sleep(0.5))  # so that all are readable in one turn
        outcomes = [threads.submit(produced, client, on_second) for client in clients[1:]]
        held.result()
        assert [outcome.result() for outcome in outcomes] == [False] * len(outcomes)
    with RawClient(node.port) as client:
        assert produce(client, "spread", b"after", on_second) == error_codes.KAFKA_STORAGE_ERROR
        assert produce(client, "spread", b"after", on_first) == error_codes.NONE
    assert node.failures == []


def produced(client: RawClient, partition: int) -> bool:
    """Whether the client knows that its record is in the log."""
    try:
        return produce(client, "spread", b"meanwhile", partition) == error_codes.NONE
    except ConnectionError:
        return False


def test_the_only_directory_that_fails_ends_the_node(nodes: ExitStack, tmp_path: Path) -> None:
    disk = BreakableDisk()
    node = running(nodes, RunningNode({"log.dirs": str(tmp_path)}, disk))
    with RawClient(node.port) as client:
        create(client, "t")
        assert produce(client, "t", b"before") == error_codes.NONE
        disk.break_under = str(tmp_path / "t-0")
        assert produce(client, "t", b"after") == error_codes.KAFKA_STORAGE_ERROR
    eventually(lambda: bool(node.failures))
    assert "\n" not in node.failures[0]


def test_a_second_node_on_the_same_directory_is_refused_in_one_line(nodes: ExitStack, tmp_path: Path) -> None:
    running(nodes, start(tmp_path))
    with pytest.raises(StartRefused) as refusal:
        start(tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def get(node: RunningNode, path: str, method: str = "GET") -> tuple[int, str]:
    assert node.node.http_port is not None
    connection = http.client.HTTPConnection("127.0.0.1", node.node.http_port, timeout=20)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_the_second_port_tells_life_readiness_and_metrics(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, start(tmp_path))
    assert get(node, "/live") == (200, "live\n")
    assert get(node, "/ready") == (200, "ready\n")
    assert get(node, "/nothing")[0] == 404
    assert get(node, "/metrics", "POST")[0] == 405
    with RawClient(node.port) as client:
        create(client, "counted")
        for _ in range(3):
            assert produce(client, "counted", b"v") == error_codes.NONE
        assert len(read(client, "counted")) == 3
    status, text = get(node, "/metrics")
    assert status == 200
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="counted"} 3\n' in text
    assert re.search(r'^kafka_network_requestmetrics_requests_total\{request="Produce",version="\d+"\} 3$', text, re.M)
    sizes = dict(re.findall(r"^kafka_server_brokertopicmetrics_(bytes\w+)_total\{.* (\d+)$", text, re.MULTILINE))
    assert int(sizes["bytesout"]) == int(sizes["bytesin"]) > 0
    assert 'kafka_log_log_logendoffset{topic="counted",partition="0"} 3\n' in text
    assert get(node, "/metrics")[0] == 200


def test_a_stop_ends_what_the_second_port_is_serving(tmp_path: Path) -> None:
    node = start(tmp_path)
    assert node.node.http_port is not None
    with socket.create_connection(("127.0.0.1", node.node.http_port), timeout=20) as unfinished:
        unfinished.sendall(b"GET /live HTTP/1.1\r\n")
        assert get(node, "/live")[0] == 200  # by now the one before is being served
        node.stop()
        assert unfinished.recv(1) == b""


def test_a_broker_that_listens_on_all_interfaces_advertises_a_reachable_name(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, RunningNode({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://:0"}))
    with RawClient(node.port) as client:
        (broker,) = client.call(MetadataRequest(topics=[]), 12).brokers
    assert (broker.host != "", broker.port) == (True, node.port)
    for host in [broker.host, *(["::1"] if has_ipv6_loopback() else [])]:
        with RawClient(broker.port, host) as client:
            assert client.call(MetadataRequest(topics=[]), 12).brokers == [broker]


def test_a_controller_listener_promises_what_controllers_decide_and_nodes_ask(nodes: ExitStack, tmp_path: Path) -> None:
    settings = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
    }
    node = running(nodes, RunningNode(settings))
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    with RawClient(node.node.ports["CONTROLLER"]) as controller, RawClient(node.port) as broker:
        keys = {entry.api_key for entry in controller.call(asked, 4).api_keys}
        of_clients = {entry.api_key for entry in broker.call(asked, 4).api_keys}
        assert of_clients - keys
        assert {api.API_KEYS[key].listeners for key in keys - of_clients} == {("controller",)}
        create(controller, "by-the-controller")
        assert produce(broker, "by-the-controller", b"v") == error_codes.NONE
        controller.send(MetadataRequest(topics=[]), 12)
        assert controller.is_closed()


def test_a_topic_deleted_while_it_is_flushed_goes_when_the_flush_has_ended(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, start(tmp_path))
    assert node.node.broker is not None
    replicas = node.node.broker.replicas
    with RawClient(node.port) as client:
        create(client, "t")
        assert produce(client, "t", b"v") == error_codes.NONE
        log = node.call(lambda: replicas.find("t", 0).led().log)
        flush = node.call(log.begin_flush)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        assert client.call(deletion, 6).responses[0].error_code == error_codes.NONE
        assert (tmp_path / "t-0").exists()
        flush.run()
        node.call(lambda: log.finish_flush(flush))
        eventually(lambda: not (tmp_path / "t-0").exists())
        create(client, "t")
        assert produce(client, "t", b"again") == error_codes.NONE
    assert node.failures == []
