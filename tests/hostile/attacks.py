"""Attacks that go on for a while, for measuring what an honest client notices of them.

Each is a function of a port and of when it is to end; the topic `LARGE` exists and holds much more than a socket does.
"""

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from attacker import Attacker, create_topic, produce, produce_request
from catalogue import advertised, ordinary
from damage import Damaged, damaged
from storms import STORMS, blow, numbers_until
from swollen import Array, Filling, swollen
from test_batches import CODECS, NOW_MS, bomb, sealed
from test_slow_clients import fetch_from
from volley import Volley

from kpywire import api
from kpywire.compression import compress
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import encode_record
from tests.wire.test_compressed_attacks import ATTACKS as PARTS

LARGE = "large"
Attack = Callable[[int, float], None]


def going_on(until_s: float) -> bool:
    return time.monotonic() < until_s


def discard(sock: socket.socket) -> None:
    """Read until the other end closes; BlockingIOError when there is nothing now."""
    deque(iter(lambda: sock.recv(1 << 20), b""), maxlen=0)


def damaged_requests(port: int, until_s: float) -> None:
    """Send the damaged requests of the tests, of all APIs in turn."""
    topic = f"mutations-{os.getpid()}"  # the broker may have been attacked before
    with Attacker(port) as client:
        topic_id = create_topic(client, topic)
    specimens = [ordinary(key, version, topic, topic_id) for key, version in advertised(port)]

    def requests() -> Iterator[Damaged]:
        seed = 0
        while going_on(until_s):
            seed += 1
            for specimen in specimens:
                yield from damaged([specimen], 3, seed)

    Volley(port).fire(requests())


def never_reading_fetchers(port: int, until_s: float) -> None:
    """A thousand of them; who is given up comes again."""
    clients: list[Attacker] = []
    while going_on(until_s):
        while len(clients) < 1000:
            client = Attacker(port)
            client.send(fetch_from(0, topic=LARGE), 12)
            clients.append(client)
        time.sleep(0.1)
        for client in clients[:50]:
            client.vanish()
        del clients[:50]
    for client in clients:
        client.vanish()


def a_byte_a_second(port: int, until_s: float) -> None:
    """Requests that come in crumbs on five hundred connections."""
    clients = [Attacker(port) for _ in range(500)]
    frame = struct.pack(">i", 1_000_000) + bytes(1_000_000)
    for position in range(1_000_000):
        if not going_on(until_s):
            break
        for client in clients:
            client.sock.send(frame[position : position + 1])
        time.sleep(1)
    for client in clients:
        client.vanish()


def pipelined(port: int, until_s: float) -> None:
    """A hundred thousand requests without a pause, again and again."""
    asked = ListOffsetsTopic(name=LARGE, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    while going_on(until_s):
        with Attacker(port) as client:
            client.sock.setblocking(False)
            left = memoryview(client.frame(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7) * 100_000)
            while left and going_on(until_s):
                with suppress(BlockingIOError):
                    left = left[client.sock.send(left[: 1 << 16]) :]
                with suppress(BlockingIOError):
                    client.sock.recv(1 << 20)


def declared_sizes(port: int, until_s: float) -> None:
    """Three hundred requests that claim 100 MB and grow slowly."""
    clients = [Attacker(port) for _ in range(300)]
    for client in clients:
        client.sock.setblocking(False)
        client.sock.send(struct.pack(">i", 100 * 1024 * 1024))
    while going_on(until_s):
        for client in clients:
            with suppress(OSError):
                client.sock.send(bytes(20_000))
        time.sleep(0.2)
    for client in clients:
        client.vanish()


def bombs(port: int, until_s: float) -> None:
    """Small batches that inflate to more than anybody should hold, in each codec."""
    batches = [sealed({"attributes": codec, "record_count": 1}, bomb(codec)[:900_000]) for codec in CODECS]
    with Attacker(port) as client:
        while going_on(until_s):
            for batch in batches:
                produce(client, LARGE, batch)
                time.sleep(0.2)


def bombs_that_are_stored(port: int, until_s: float) -> None:
    """Batches that inflate to as much as is allowed, in all partitions of a request, and searches for their time."""
    partitions = 16
    record = encode_record(0, 0, None, bytes(16 << 20))
    batches = [sealed({"attributes": codec}, compress(codec, record)) for codec in CODECS]
    data = [PartitionProduceData(index=each, records=batches[each % len(batches)]) for each in range(partitions)]
    topic = TopicProduceData(name="stored-bombs", partition_data=data)
    times = [ListOffsetsPartition(partition_index=each, timestamp=NOW_MS) for each in range(partitions)]
    asked = ListOffsetsTopic(name="stored-bombs", partitions=times)
    with Attacker(port) as client, suppress(AssertionError):
        create_topic(client, "stored-bombs", partitions)
    while going_on(until_s):
        with Attacker(port) as client:
            client.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
            client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)


def many_parts(port: int, until_s: float) -> None:
    """Batches of a megabyte that are made of empty members, frames and blocks, from ten new connections at a time."""
    batches = [sealed({"attributes": codec}, section(1_000_000)) for codec, section in PARTS.values()]
    number = 0
    while going_on(until_s):
        clients = [Attacker(port) for _ in range(10)]
        for client in clients:
            number += 1
            client.send(produce_request(LARGE, batches[number % len(batches)]), 9)
        for client in clients:
            with suppress(OSError, TimeoutError):
                client.receive(api.PRODUCE, 9)
            client.vanish()


SWOLLEN = {
    api.FIND_COORDINATOR: "coordinator_keys", api.METADATA: "topics", api.DESCRIBE_GROUPS: "groups",
    api.DESCRIBE_CONFIGS: "resources", api.CREATE_PARTITIONS: "topics", api.DELETE_TOPICS: "topics",
    api.LIST_OFFSETS: "topics", api.INCREMENTAL_ALTER_CONFIGS: "resources",
}  # fmt: skip


def swollen_requests(count: int, connections: int) -> Attack:
    """Requests with a given number of elements, of those APIs that have to do something for each."""

    def attack(port: int, until_s: float) -> None:
        frames = []
        for key, array in SWOLLEN.items():
            payload = swollen(key, api.API_KEYS[key].max_version, Array((array,)), count, Filling("t", True, 32))
            frames.append(struct.pack(">i", len(payload)) + payload)
        clients = [Attacker(port, timeout_s=1) for _ in range(connections)]
        number = 0
        while going_on(until_s):
            for index, client in enumerate(clients):
                number += 1
                client.sock.setblocking(False)
                try:
                    client.sock.send(frames[number % len(frames)])
                    discard(client.sock)
                except BlockingIOError:
                    continue
                except OSError:
                    client.sock.close()
                    clients[index] = Attacker(port, timeout_s=1)
            time.sleep(0.01)
        for client in clients:
            client.vanish()

    return attack


def connections(port: int, until_s: float) -> None:
    """One connection after the other, each gone at once."""
    while going_on(until_s):
        for _ in range(20):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        time.sleep(0.01)


def of_storm(name: str) -> Attack:
    storm, connections = STORMS[name]

    def attack(port: int, until_s: float) -> None:
        blow(port, storm, connections, numbers_until(until_s))

    return attack


ATTACKS: dict[str, Attack] = {
    "damaged requests": damaged_requests,
    "1 000 never-reading fetchers": never_reading_fetchers,
    "a byte a second": a_byte_a_second,
    "100 000 pipelined": pipelined,
    "100 MB declared": declared_sizes,
    "bombs": bombs,
    "bombs that are stored": bombs_that_are_stored,
    "many parts": many_parts,
    "a thousand elements": swollen_requests(1000, 20),
    "a hundred thousand elements": swollen_requests(100_000, 8),
    "connections": connections,
    **{name: of_storm(name) for name in STORMS},
}
