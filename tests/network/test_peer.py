"""Requests to another node: over a link that the test plays, and over real sockets to a real broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.io.scheduler import LoopScheduler, ManualScheduler
from kpybroker.network.peer import Peer, Unanswered
from kpybroker.network.peers import Peers, connect_over
from kpybroker.server.outgoing import Outgoing
from kpybroker.testing import AsyncBroker
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.metadata import MetadataRequest, MetadataResponse
from kpywire.messages.vote import VoteRequest, VoteResponse

TIMEOUT_MS = 1000.0


class PlayedLink:
    """What a peer sends is kept; the test answers."""

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
        self.peer = Peer(self.scheduler, self._connect, "there", 9093, "me", TIMEOUT_MS)

    def _connect(self, _host: str, _port: int, opened: Any, taken: Any, lost: Any) -> PlayedLink:
        self.links.append(PlayedLink(opened, taken, lost))
        return self.links[-1]

    def ask(self) -> None:
        self.peer.send(VoteRequest(topics=[]), self.answers.append)

    def greet(self, *served: tuple[int, int, int]) -> PlayedLink:
        link = self.links[-1]
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
    assert played.answers == [Unanswered("there:9093 does not serve Vote", is_refused=True)]
    assert not link.is_closed


def test_what_an_older_version_cannot_say_is_not_said() -> None:
    played = Played()
    elsewhere = DescribeClusterRequest(endpoint_type=2)
    played.peer.send(elsewhere, played.answers.append)
    link = played.greet((api.DESCRIBE_CLUSTER, 0, 0))
    (answer,) = played.answers
    assert answer.is_refused
    assert not link.frames


@pytest.mark.parametrize("ending", ["lost", "silent", "closed", "garbage", "unasked", "refusing"])
def test_whatever_ends_a_connection_every_request_hears_of_it_once_and_the_next_one_makes_another(ending: str) -> None:
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
    assert isinstance(played.answers[0], Unanswered)
    assert not played.peer.is_connected
    played.scheduler.advance(10 * TIMEOUT_MS)
    assert len(played.answers) == 1
    played.ask()
    assert len(played.links) == 2
    played.greet((api.VOTE, 0, 2)).answer(VOTED)
    assert played.answers[1] == VOTED


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
        assert isinstance(answer, Unanswered), "nobody listens there any more"
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
        assert await answers.get() == Unanswered("a frame that claims 2147483647 bytes")
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
