"""Requests to another node: over a link that the test plays, and over real sockets to a real broker."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.outgoing import Outgoing
from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.network.peers import Peers, connect_over
from kpybroker.runtime.io.scheduler import LoopScheduler, ManualScheduler
from kpybroker.testing import AsyncBroker
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.metadata import MetadataRequest, MetadataResponse
from kpywire.messages.vote import VoteRequest, VoteResponse

TIMEOUT_MS = 1000.0


class PlayedLink:
    """A link that keeps what a peer sends; the test answers."""

    def __init__(self, opened: Callable[[], object], taken: Callable[[bytes], object], lost: Callable[[str], object]):
        self.opened, self.taken, self.lost = opened, taken, lost
        self.frames: list[bytes] = []
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)

    def close(self) -> None:
        self.is_closed = True

    def answer(self, response: Any) -> None:
        """Answer the oldest request that is not answered."""
        asked = decode_request_header(self.frames.pop(0))
        header = encode_response_header(asked.api_key, asked.api_version, asked.correlation_id)
        self.taken(header + bytes(codec.encode(response, asked.api_version)))


class Played:
    """A peer over played links."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.links: list[PlayedLink] = []
        self.answers: list[Any] = []
        self.peer = Peer(self.scheduler, self.connect, "there", 9093, "me", TIMEOUT_MS)

    def connect(self, _host: str, _port: int, opened: Any, taken: Any, lost: Any) -> PlayedLink:
        self.links.append(PlayedLink(opened, taken, lost))
        return self.links[-1]

    def ask(self) -> None:
        self.peer.send(VoteRequest(topics=[]), self.answers.append)

    def greet(self, *served: tuple[int, int, int], link: PlayedLink | None = None) -> PlayedLink:
        link = link or self.links[-1]
        link.opened()
        keys = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in served]
        link.answer(ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0))
        return link


VOTED = VoteResponse(error_code=0, topics=[])


def test_the_first_request_makes_the_connection_and_all_are_answered_in_order() -> None:
    played = Played()
    played.ask()
    played.ask()
    assert len(played.links) == 1
    link = played.greet((api.VOTE, 0, 1))
    played.ask()
    assert [decode_request_header(frame).api_version for frame in link.frames] == [1, 1, 1]
    for code in (1, 2, 3):
        link.answer(VoteResponse(error_code=code, topics=[]))
    assert [answer.error_code for answer in played.answers] == [1, 2, 3]


def test_a_request_that_the_node_does_not_serve_is_refused_and_the_connection_stays() -> None:
    played = Played()
    played.ask()
    link = played.greet((api.METADATA, 0, 13))
    assert played.answers == [NoResponse("there:9093 does not serve Vote", is_refused=True)]
    assert not link.is_closed


def test_fields_that_an_older_version_lacks_are_left_out() -> None:
    played = Played()
    elsewhere = DescribeClusterRequest(endpoint_type=2)
    played.peer.send(elsewhere, played.answers.append)
    link = played.greet((api.DESCRIBE_CLUSTER, 0, 0))
    (answer,) = played.answers
    assert answer.is_refused
    assert not link.frames


@pytest.mark.parametrize("last", [2, 3])
def test_the_isr_is_sent_in_the_form_that_the_controller_understands(last: int) -> None:
    played = Played()
    partition = AlterPartitionRequestPartitionData(
        partition_index=4,
        leader_epoch=2,
        new_isr_with_epochs=[BrokerState(broker_id=1, broker_epoch=11), BrokerState(broker_id=3, broker_epoch=13)],
        partition_epoch=6,
    )
    topic = AlterPartitionRequestTopicData(topic_id=b"t" * 16, partitions=[partition])
    asked = AlterPartitionRequest(broker_id=1, broker_epoch=11, topics=[topic])
    played.peer.send(asked, played.answers.append)
    (frame,) = played.greet((api.ALTER_PARTITION, 2, last)).frames
    header = decode_request_header(frame)
    sent = codec.decode(AlterPartitionRequest, header.api_version, frame, header.end)
    (notified,) = sent.topics[0].partitions
    assert header.api_version == last
    assert (notified.new_isr, len(notified.new_isr_with_epochs)) == (([1, 3], 0) if last == 2 else ([], 2))
    assert (notified.partition_index, notified.leader_epoch, notified.partition_epoch) == (4, 2, 6)
    assert len(partition.new_isr_with_epochs) == 2  # another controller may be asked next


@pytest.mark.parametrize(("last", "reported"), [(3, ["one"]), (4, ["one", "zero"])])
def test_features_with_minimum_0_are_left_out_for_old_controllers(last: int, reported: list[str]) -> None:
    played = Played()
    levels = {"one": 1, "zero": 0}
    features = [Feature(name=name, min_supported_version=low, max_supported_version=2) for name, low in levels.items()]
    registration = BrokerRegistrationRequest(
        broker_id=1, cluster_id="c", incarnation_id=b"i" * 16, listeners=[], features=features, rack=None
    )
    played.peer.send(registration, played.answers.append)
    (frame,) = played.greet((api.BROKER_REGISTRATION, 0, last)).frames
    header = decode_request_header(frame)
    sent = codec.decode(BrokerRegistrationRequest, header.api_version, frame, header.end)
    assert [feature.name for feature in sent.features] == reported


@pytest.mark.parametrize("ending", ["lost", "silent", "closed", "garbage", "unasked", "refusing"])
def test_a_lost_connection_fails_each_request_once_and_the_next_reconnects(ending: str) -> None:
    played = Played()
    played.ask()
    link = played.links[0] if ending == "refusing" else played.greet((api.VOTE, 0, 2))
    if ending == "lost":
        link.lost("reset")
    elif ending == "silent":
        played.scheduler.advance(TIMEOUT_MS)
    elif ending == "closed":
        played.peer.close()
    elif ending == "garbage":
        link.taken(b"\xff" * 20)
    elif ending == "unasked":
        link.answer(VOTED)
        played.answers.clear()
        played.ask()
        frame = link.frames.pop()
        link.taken(frame[4:8] + b"\0\0\0")
    else:
        link.opened()
        link.answer(ApiVersionsResponse(error_code=error_codes.CLUSTER_AUTHORIZATION_FAILED, api_keys=[]))
    assert len(played.answers) == 1
    assert isinstance(played.answers[0], NoResponse)
    assert not played.peer.is_connected
    played.scheduler.advance(10 * TIMEOUT_MS)
    assert len(played.answers) == 1
    played.ask()
    assert len(played.links) == 2
    played.greet((api.VOTE, 0, 2)).answer(VOTED)
    assert played.answers[1] == VOTED


@pytest.mark.parametrize("ending", ["lost", "refused", "answered"])
def test_a_callback_that_raises_keeps_no_other_answer_back(ending: str) -> None:
    played = Played()

    def breaks(_answer: Any) -> None:
        raise RuntimeError("something nobody thought of")

    played.peer.send(VoteRequest(topics=[]), breaks)
    played.ask()
    link = played.greet() if ending == "refused" else played.greet((api.VOTE, 0, 2))
    if ending == "lost":
        link.lost("reset")
    elif ending == "answered":
        link.answer(VOTED)
        link.answer(VOTED)
    assert len(played.answers) == 1
    with pytest.raises(RuntimeError, match="nobody thought of"):
        played.scheduler.run()
    played.scheduler.advance(10 * TIMEOUT_MS)
    assert link.is_closed == (ending == "lost"), "no timer is left"
    assert len(played.answers) == 1


def test_a_single_request_uses_a_connection_that_ends_with_the_answer() -> None:
    played = Played()
    peers = Peers(played.scheduler, played.connect, "me", TIMEOUT_MS)
    for _ in range(2):
        peers.ask_once("there", 9093, VoteRequest(topics=[]), played.answers.append)
    first, second = played.links
    for link in (first, second):
        played.greet((api.VOTE, 0, 2), link=link)
    first.answer(VOTED)
    assert (played.answers, first.is_closed, second.is_closed) == ([VOTED], True, False)
    peers.close()
    assert second.is_closed
    assert [type(each) for each in played.answers] == [VoteResponse, NoResponse]


def test_connections_to_where_no_broker_listens_any_more_end() -> None:
    played = Played()
    ports = {1: 9093, 2: 9094}
    image: Any = SimpleNamespace(brokers={})
    nodes = Nodes(image, "INTERNAL", Peers(played.scheduler, played.connect, "me", TIMEOUT_MS))

    def ask(node_id: int) -> None:
        image.brokers = {
            each: SimpleNamespace(listeners={"INTERNAL": SimpleNamespace(host="there", port=port)})
            for each, port in ports.items()
        }
        nodes.send(node_id, VoteRequest(topics=[]), played.answers.append)

    ask(1)
    ask(2)
    ports[1] = 9095
    ask(1)
    assert [link.is_closed for link in played.links] == [True, False, False]
    del ports[2]
    ask(1)
    ports[3] = 9096
    ask(3)
    assert [link.is_closed for link in played.links] == [True, True, False, False]
    nodes.close()
    assert all(link.is_closed for link in played.links)
    assert len(played.answers) == 5


@pytest.mark.parametrize(
    ("host", "port"), [("a" * 64, 9092), ("nowhere..invalid", 9092), ("127.0.0.1", 65_536), ("a\0b", 1)]
)
def test_an_invalid_address_is_reported_like_any_other_failure(host: str, port: int) -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        answers: asyncio.Queue[Any] = asyncio.Queue()
        Peer(scheduler, connect_over(loop), host, port, "me", 10_000).send(
            MetadataRequest(topics=[]), answers.put_nowait
        )
        answer = await asyncio.wait_for(answers.get(), 5)
        assert "is no address" in answer.reason
        await scheduler.close()

    asyncio.run(ask())


def test_a_real_broker_answers_over_a_real_connection() -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        async with AsyncBroker() as broker:
            host, port = broker.bootstrap_servers.split(":")
            peers = Peers(scheduler, connect_over(loop), "me", 10_000)
            peer = peers.at(host, int(port))
            assert peers.at(host, int(port)) is peer
            answers: asyncio.Queue[Any] = asyncio.Queue()
            for request in (MetadataRequest(topics=[]), DescribeClusterRequest(), MetadataRequest(topics=[])):
                peer.send(request, answers.put_nowait)
            metadata = await answers.get()
            assert isinstance(metadata, MetadataResponse)
            assert [each.port for each in metadata.brokers] == [int(port)]
            assert (await answers.get()).brokers[0].port == int(port)
            assert await answers.get() == metadata
            peers.close()
        lost = Peer(scheduler, connect_over(loop), host, int(port), "me", 10_000)
        lost.send(MetadataRequest(topics=[]), answers.put_nowait)
        answer = await answers.get()
        assert isinstance(answer, NoResponse), "nobody listens there any more"
        await scheduler.close()

    asyncio.run(ask())


def test_a_frame_of_an_absurd_size_ends_the_connection_before_memory_is_spent() -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((2**31 - 1).to_bytes(4, "big"))
            await writer.drain()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        answers: asyncio.Queue[Any] = asyncio.Queue()
        peer = Peer(scheduler, connect_over(loop), "127.0.0.1", port, "me", 10_000)
        peer.send(MetadataRequest(topics=[]), answers.put_nowait)
        assert await answers.get() == NoResponse("a frame that claims 2147483647 bytes")
        server.close()
        await scheduler.close()

    asyncio.run(ask())


@pytest.mark.parametrize("sizes", [(70_000,), (3, 70_000, 5, 70_000), (200_000, 64 * 1024)])
@pytest.mark.parametrize("chunk", [1 << 20, 70_004, 1000])
def test_frames_come_whole_however_they_are_cut_and_however_large(sizes: tuple[int, ...], chunk: int) -> None:
    frames = [bytes([number]) * size for number, size in enumerate(sizes)]
    taken: list[bytes | memoryview] = []
    link = Outgoing(lambda: None, taken.append, lambda reason: pytest.fail(reason), 1 << 20)
    sent = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    for start in range(0, len(sent), chunk):
        link.data_received(sent[start : start + chunk])
    assert taken == frames
