"""Whole requests through the dispatcher of a running node, from a frame to its reply, without a socket.

The node is a real one, with its data in a temporary directory. Its connection is real too, but frames are handed to the
dispatcher, and replies are dropped. What the row small-requests pays beyond this is the event loop and the system calls
of the socket.
"""

import asyncio
import logging
import random
import socket
import tempfile
from collections.abc import Callable, Iterator
from time import time

from benchmarks.micro.clock import Operation
from benchmarks.raw import frames, grouping, many
from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpybroker.requests.server.channel import PlainChannel
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.outbox import Reply
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.event_loop import new_event_loop
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.codec import encode
from kpywire.header import encode_request_header
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC = "micro"
GROUP = "committers"
PARTITIONS = 50
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 7
SIZE_PREFIX_BYTES = 4
RECORDS = 150
OPEN_FILES = 512
FETCH_BYTES, FEW_BYTES = 1 << 20, 1 << 12
FETCHED = (1, PARTITIONS)
clients: list[socket.socket] = []
"""The other ends of the connections."""


def operations() -> Iterator[Operation]:
    logging.disable(logging.WARNING)
    loop = new_event_loop()
    with tempfile.TemporaryDirectory(prefix="kpymicro-") as path:
        settings = {"log.dirs": path, "listeners": "PLAINTEXT://127.0.0.1:0", "kpybroker.http.listener": ""}
        node = Node(BrokerConfig.load(None, settings), loop, lambda line: print(line))
        loop.run_until_complete(node.start(RealDisk(Descriptors(OPEN_FILES))))
        try:
            yield from requests(node)
        finally:
            loop.run_until_complete(node.stop())
            loop.close()
            while clients:
                clients.pop().close()


def requests(node: Node) -> Iterator[Operation]:
    create_topic(node)
    now_ms = int(time() * 1000)
    rng = random.Random(1)
    small = frames.batch_of_bytes(213, now_ms)
    equal = frames.batch([b"x" * 100] * RECORDS, now_ms)
    unequal = frames.batch([b"x" * rng.randint(50, 150) for _ in range(RECORDS)], now_ms)
    yield Operation("Produce of 213 B", serving(node, frames.produce(TOPIC, [0], small).frame))
    all_partitions = frames.produce(TOPIC, range(PARTITIONS), small).frame
    yield Operation("Produce of 213 B to 50", serving(node, all_partitions), per=PARTITIONS, unit="partition")
    yield Operation("Produce of 150 equal records", serving(node, frames.produce(TOPIC, [1], equal).frame))
    yield Operation("Produce of 150 unequal records", serving(node, frames.produce(TOPIC, [2], unequal).frame))
    await_coordinator(node)
    commit = grouping.offset_commit(GROUP, TOPIC, 0, 7).frame
    yield Operation("OffsetCommit of one partition", serving(node, commit))
    for name, offset in (("from the start", 0), ("near the end", node_end(node, 1) - RECORDS)):
        fetch = frames.fetch(TOPIC, 1, offset, max_bytes=FETCH_BYTES, min_bytes=1, max_wait_ms=500)
        yield Operation(f"Fetch of 1 MB {name}", serving(node, fetch.frame))
    for partitions in FETCHED:
        asked = {TOPIC: range(partitions)}
        fetched = many.fetch(asked, offset=0, session=(0, -1), partition_bytes=FEW_BYTES, max_wait_ms=0)
        yield Operation(
            f"Fetch of few records of {partitions}", serving(node, fetched), per=partitions, unit="partition"
        )


def await_coordinator(node: Node) -> None:
    """Until the shard that keeps the group is open."""
    assert node.broker is not None
    assert node.dispatcher is not None
    groups = node.broker.groups
    asked = grouping.find_coordinator(GROUP)[SIZE_PREFIX_BYTES:]
    answered(node, node.dispatcher(any_connection(node), memoryview(asked)))
    while groups.settled(GROUP) is None:
        node.platform.loop.run_until_complete(asyncio.sleep(0.01))


def node_end(node: Node, partition: int) -> int:
    assert node.broker is not None
    return int(node.broker.replicas.topics[TOPIC].replica(partition).led().log.log_end_offset)


def serving(node: Node, frame: bytes) -> Callable[[], object]:
    """One request as it comes from a socket: bytes in a buffer that is used again for every frame."""
    assert node.dispatcher is not None
    dispatch, connection = node.dispatcher, any_connection(node)
    scratch = bytearray(len(frame) - SIZE_PREFIX_BYTES)
    view, body = memoryview(scratch), frame[SIZE_PREFIX_BYTES:]

    def serve() -> Reply | None:
        scratch[:] = body
        reply = dispatch(connection, view)
        if reply is None:
            raise RuntimeError("the request has no answer")
        if isinstance(reply, Pending):
            answered(node, reply)  # rare: a coordinator's answers wait for the next turn when the last one took long
            return None
        return reply

    scratch[:] = body
    answered(node, dispatch(connection, view))  # the first of its kind takes several turns of the loop
    return serve


def create_topic(node: Node, partitions: int = PARTITIONS) -> None:
    """Through the dispatcher, as a client would."""
    assert node.broker is not None
    assert node.dispatcher is not None
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    header = encode_request_header(CREATE_TOPICS, CREATE_TOPICS_VERSION, 1, None)
    answered(node, node.dispatcher(any_connection(node), memoryview(header + encode(request, CREATE_TOPICS_VERSION))))
    while TOPIC not in node.broker.replicas.topics:
        node.platform.loop.run_until_complete(asyncio.sleep(0.01))


def any_connection(node: Node) -> Connection:
    """A connection to the node, whose client says nothing and stays until the node ends."""
    assert node.server is not None
    assert node.dispatcher is not None
    ours, theirs = socket.socketpair()
    clients.append(theirs)
    ours.setblocking(False)
    channel = PlainChannel(ours, node.server.poller)
    connection = Connection(node.server, channel, ConnectedClient("127.0.0.1", 1, "PLAINTEXT"), node.dispatcher)
    node.server.connections[connection] = None
    return connection


def answered(node: Node, reply: Reply | Pending | None) -> None:
    """Let the loop turn until a request is answered."""
    if isinstance(reply, Pending):
        done = node.platform.loop.create_future()
        reply.when_resolved(done.set_result)
        node.platform.loop.run_until_complete(done)
