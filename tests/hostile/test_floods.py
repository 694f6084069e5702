"""More of everything than a broker has: connections, descriptors, memory for requests, sessions, idle clients."""

import socket
import struct
import time
from collections.abc import Callable

import pytest
from attacker import Attacker, create_topic, produce, produce_request
from bystander import Bystander
from watched import PATIENCE_S, WatchedBroker

from kpywire import api, error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.waiting import eventually

StartBroker = Callable[..., WatchedBroker]
MIB = 1024 * 1024
FETCH_VERSION = 12
FOR_EVER_MS = 2**31 - 1


def batch_of(size: int) -> bytes:
    return build_batch([Record(timestamp=int(time.time() * 1000), value=b"x" * size)])


def connections(broker: WatchedBroker, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) for _ in range(count)]


def connections_begun(broker: WatchedBroker, count: int) -> list[socket.socket]:
    """The same as `connections`, whether or not somebody accepts them."""
    begun = []
    for _ in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", broker.port))
        begun.append(sock)
    return begun


def is_refused(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_beyond_the_limit_are_refused_and_those_within_it_served(start_broker: StartBroker) -> None:
    broker = start_broker(max_connections_per_ip="40")
    sockets = broker.sockets()
    with Attacker(broker.port) as honest:
        honest.call(MetadataRequest(topics=[]), 9)
        position = broker.log_position()
        flood = connections(broker, 400)
        assert all(is_refused(sock) for sock in flood[39:])
        assert honest.call(MetadataRequest(topics=[]), 9).brokers
        assert len(broker.log_since(position)) <= 3, "one line says it, not one for each"
        for sock in flood:
            sock.close()
        eventually(lambda: broker.sockets() <= sockets + 1, "there is room again")
        with Attacker(broker.port) as again:
            assert again.call(MetadataRequest(topics=[]), 9).brokers


def test_connections_beyond_what_the_node_takes_wait_and_are_served_when_others_leave(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(max_connections="40")
    position = broker.log_position()
    with Attacker(broker.port) as honest:
        assert honest.call(MetadataRequest(topics=[]), 9).brokers
        flood = connections_begun(broker, 400)
        time.sleep(0.2)
        assert honest.call(MetadataRequest(topics=[]), 9).brokers
        assert broker.sockets() < 60
        for sock in flood:
            sock.close()
        with Attacker(broker.port) as late:
            assert late.call(MetadataRequest(topics=[]), 9).brokers
    assert len(broker.log_since(position)) <= 2


def test_no_flood_of_connections_takes_the_files_that_the_broker_itself_needs(start_broker: StartBroker) -> None:
    broker = start_broker(open_files=1024, replica_high_watermark_checkpoint_interval_ms="200")
    with Attacker(broker.port) as honest:
        create_topic(honest, "before", 100)
        flood = connections_begun(broker, 1500)
        create_topic(honest, "after", 300)
        for index in range(300):
            assert produce(honest, "after", batch_of(10), partition=index).error_code == error_codes.NONE
        time.sleep(0.5)  # a checkpoint or two
        assert produce(honest, "before", batch_of(10)).error_code == error_codes.NONE
        for sock in flood:
            sock.close()


@pytest.mark.slow
def test_many_partitions_are_written_flushed_and_read_with_few_files(start_broker: StartBroker) -> None:
    count = 1500
    broker = start_broker(open_files=1024)
    with Attacker(broker.port) as client:
        create_topic(client, "wide", count)
        batch = batch_of(60_000)
        for _ in range(2):
            data = [PartitionProduceData(index=index, records=batch) for index in range(count)]
            topic = TopicProduceData(name="wide", partition_data=data)
            answers = client.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9).responses[0]
            assert {answer.error_code for answer in answers.partition_responses} == {error_codes.NONE}
        wanted = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=MIB) for n in range(count)]
        seen: set[int] = set()
        while len(seen) < count:
            rest = [partition for partition in wanted if partition.partition not in seen]
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="wide", partitions=rest)])
            answers = client.call(request, FETCH_VERSION).responses[0].partitions
            assert {answer.error_code for answer in answers} == {error_codes.NONE}
            read = {answer.partition_index for answer in answers if answer.records}
            assert read
            seen |= read


def test_requests_that_never_end_do_not_keep_memory_from_others(start_broker: StartBroker) -> None:
    broker = start_broker(queued_max_request_bytes=str(16 * MIB), socket_request_max_bytes=str(16 * MIB))
    with Attacker(broker.port) as client:
        create_topic(client, "honest")
    bystander = Bystander(broker.port, "honest", PATIENCE_S)
    before = broker.memory_bytes()
    broker.forget_peak()
    attackers = [Attacker(broker.port) for _ in range(300)]
    for client in attackers:
        client.sock.setblocking(False)
    declared = struct.pack(">i", 15 * MIB)
    for client in attackers:
        client.sock.send(declared + bytes(300_000))
    for _ in range(20):
        for client in attackers:
            try:
                client.sock.send(bytes(100_000))
            except (BlockingIOError, ConnectionError):
                continue
    with Attacker(broker.port) as probe:
        assert probe.drain()
    time.sleep(1)  # who came a second later is not taken for one of them
    with Attacker(broker.port, timeout_s=60) as honest:
        # A request too large to be read at once needs memory, which the oldest attackers have to give back.
        assert produce(honest, "honest", batch_of(1_000_000)).error_code == error_codes.NONE
    assert broker.peak_memory_bytes() - before < 16 * MIB + 16 * MIB + 32 * MIB
    bystander.stop()
    assert bystander.failure is None
    for client in attackers:
        client.vanish()


def session_request(topic: str, count: int, *, session_id: int = 0, epoch: int = 0) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(count)]
    topics = [FetchTopic(topic=topic, partitions=partitions)]
    return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=topics)


def test_when_sessions_run_out_clients_are_served_without_one(start_broker: StartBroker) -> None:
    broker = start_broker(max_incremental_fetch_session_cache_slots="10")
    with Attacker(broker.port) as client:
        create_topic(client, "t")
        given = []
        for _ in range(50):
            answer = client.call(session_request("t", 1), FETCH_VERSION)
            assert answer.error_code == error_codes.NONE
            assert answer.responses[0].partitions[0].error_code == error_codes.NONE
            given.append(answer.session_id)
        assert sum(session_id != 0 for session_id in given) == 10
        first = next(session_id for session_id in given if session_id)
        answer = client.call(session_request("t", 0, session_id=first, epoch=1), FETCH_VERSION)
        assert answer.error_code == error_codes.NONE


def test_sessions_of_partitions_that_do_not_exist_are_not_kept(target: WatchedBroker) -> None:
    before = target.memory_bytes()
    with Attacker(target.port) as client:
        for _ in range(7):
            client.send(session_request("no-such-topic", 35_000), FETCH_VERSION)
            throttle_ms, code, session_id = struct.unpack_from(">ihi", client.read_frame(), 5)
            assert (throttle_ms, code, session_id) == (0, error_codes.NONE, 0)
    assert target.peak_memory_bytes() - before < 150 * MIB


def test_idle_clients_are_closed_whatever_they_wait_for(start_broker: StartBroker) -> None:
    broker = start_broker(connections_max_idle_ms="1000")
    busy = Attacker(broker.port)
    create_topic(busy, "t")
    sockets = broker.sockets()
    silent, half, parked, never_reading = (Attacker(broker.port) for _ in range(4))
    half.sock.sendall(struct.pack(">i", 1000) + bytes(500))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    wait = FetchRequest(max_wait_ms=FOR_EVER_MS, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
    parked.send(wait, FETCH_VERSION)
    never_reading.sock.setblocking(False)
    try:
        while True:
            never_reading.sock.send(never_reading.frame(MetadataRequest(topics=None), 9) * 1000)
    except BlockingIOError:
        pass
    for client in (silent, half, parked):
        client.sock.setblocking(False)

    def are_gone() -> bool:
        assert busy.call(MetadataRequest(topics=[]), 9).brokers, "who is not idle is served"
        return broker.sockets() <= sockets

    eventually(are_gone, "the end of idle clients")
    assert busy.call(MetadataRequest(topics=[]), 9).brokers
    for client in (silent, half, parked, never_reading, busy):
        client.sock.close()


def test_a_broker_under_attack_stops_cleanly_and_starts_again(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Attacker(broker.port) as client:
        create_topic(client, "t")
        for _ in range(30):
            assert produce(client, "t", batch_of(900_000)).error_code == error_codes.NONE
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 * MIB)
    everything = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
    at_end = FetchPartition(partition=0, fetch_offset=30, partition_max_bytes=MIB)
    wait = FetchRequest(max_wait_ms=FOR_EVER_MS, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[at_end])])
    attackers = [Attacker(broker.port) for _ in range(200)]
    for number, client in enumerate(attackers):
        match number % 4:
            case 0:
                client.send(everything, FETCH_VERSION)
            case 1:
                client.send(wait, FETCH_VERSION)
            case 2:
                client.sock.sendall(struct.pack(">i", 50 * MIB) + bytes(300_000))
            case 3:
                client.sock.sendall(client.frame(produce_request("t", batch_of(100_000)), 9)[:-1])
    with Attacker(broker.port) as probe:
        assert probe.drain()
    broker.restart()
    with Attacker(broker.port) as client:
        assert produce(client, "t", batch_of(10)).base_offset == 30
    for client in attackers:
        client.vanish()


def test_many_clients_that_produce_at_once_are_all_answered(target: WatchedBroker) -> None:
    with Attacker(target.port) as client:
        create_topic(client, "crowded", 4)
    crowd = [Attacker(target.port) for _ in range(200)]
    batch = batch_of(20_000)
    for _ in range(3):
        for number, client in enumerate(crowd):
            client.send(produce_request("crowded", batch, partition=number % 4, acks=-1), 9)
        for client in crowd:
            answer = client.receive(api.PRODUCE, 9).responses[0].partition_responses[0]
            assert answer.error_code == error_codes.NONE
    for client in crowd:
        client.sock.close()
