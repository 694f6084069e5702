"""The way to the active controller: here, elsewhere, nowhere yet, or somewhere else by now."""

from collections.abc import Callable
from typing import Any

from kpybroker.hosts.network.peers import Peers
from kpybroker.hosts.quorum.channel import RETRY_MS, ControllerChannel
from kpybroker.machines.controller import error_responses
from kpybroker.machines.raft.voters import VoterEndpoint
from kpybroker.requests.handlers import load, served_versions
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.add_raft_voter import AddRaftVoterRequest
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

TIMEOUT_MS = 1000
ALLOCATE = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)


def block(start: int = 0, code: int = error_codes.NONE) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=code, producer_id_start=start, producer_id_len=1000
    )


class PlayedReplica:
    """The quorum as a node knows it, which the test decides."""

    def __init__(self) -> None:
        self.is_active = False
        self.controller_id = -1
        self.kraft_version = 1
        self.leader_endpoint: VoterEndpoint | None = None
        self.asked: list[tuple[Any, Callable[[Any], object]]] = []
        self._changed: Callable[[], object] = lambda: None

    def when_leader_changes(self, changed: Callable[[], object]) -> None:
        self._changed = changed

    def send(
        self,
        request: Any,
        reply: Callable[[Any], object],
        *,
        api_version: int | None = None,
        principal: Principal = ANONYMOUS,
        client_id: str = "",
    ) -> None:
        assert api_version is None
        assert (principal, client_id) == (ANONYMOUS, "")
        self.asked.append((request, reply))

    def lead(self, port: int | None, *, here: bool = False) -> None:
        self.is_active = here
        self.leader_endpoint = None if port is None else VoterEndpoint("CONTROLLER", "there", port)
        self._changed()


class PlayedLink:
    """A controller that answers when the test says so."""

    def __init__(self, port: int, taken: Callable[[bytes], object], lost: Callable[[str], object]) -> None:
        self.port, self.taken, self.lost = port, taken, lost
        self.frames: list[bytes] = []
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        if header.api_key != api.API_VERSIONS:
            self.frames.append(frame)
            return
        keys = [ApiVersion(api_key=key, min_version=0, max_version=9) for key in (api.ALLOCATE_PRODUCER_IDS,)]
        self._answer(header, ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0))

    def close(self) -> None:
        self.is_closed = True

    def answer(self, response: Any) -> None:
        self._answer(decode_request_header(self.frames.pop(0)), response)

    def _answer(self, header: Any, response: Any) -> None:
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        self.taken(head + bytes(codec.encode(response, header.api_version)))


class Played:
    """A channel over all of this."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.replica = PlayedReplica()
        self.links: list[PlayedLink] = []
        self.answers: list[Any] = []
        self.peers = Peers(self.scheduler, self._connect, "me", 10 * TIMEOUT_MS)
        self.channel = ControllerChannel(self.scheduler, self.replica, self.peers, TIMEOUT_MS)

    def _connect(self, _host: str, port: int, opened: Any, taken: Any, lost: Any) -> PlayedLink:
        link = PlayedLink(port, taken, lost)
        self.links.append(link)
        self.scheduler.call_soon(opened)
        return link

    def ask(self) -> None:
        self.channel.send(ALLOCATE, self.answers.append)
        self.scheduler.run()


def test_the_controller_of_this_process_is_asked_without_a_connection() -> None:
    played = Played()
    played.replica.lead(None, here=True)
    played.ask()
    ((request, reply),) = played.replica.asked
    reply(block(5))
    assert (request, played.answers, played.links) == (ALLOCATE, [block(5)], [])


def test_requests_without_a_controller_are_answered_by_the_first_one() -> None:
    played = Played()
    played.ask()
    assert not played.links
    played.replica.lead(9093)
    played.scheduler.run()
    played.links[0].answer(block(7))
    assert played.answers == [block(7)]


def test_a_client_asks_any_broker_again_after_no_controller() -> None:
    played = Played()
    played.replica.lead(9093)
    played.ask()
    played.links[0].answer(block(code=error_codes.NOT_CONTROLLER))
    assert not played.answers
    played.scheduler.advance(RETRY_MS)
    played.links[0].answer(block(code=error_codes.NOT_CONTROLLER))
    played.replica.lead(None, here=True)
    ((_, reply),) = played.replica.asked
    reply(block(9))
    assert played.answers == [block(9)]


def test_requests_to_a_former_controller_are_not_waited_for() -> None:
    played = Played()
    played.replica.lead(9093)
    played.ask()
    played.replica.lead(9094)
    played.scheduler.run()
    assert (played.links[0].is_closed, played.links[1].port) == (True, 9094)
    played.links[1].answer(block(1))
    assert played.answers == [block(1)]


def test_only_the_controller_that_is_asked_is_kept() -> None:
    played = Played()
    for port in (9093, 9094, 9095):
        played.replica.lead(port)
        played.ask()
    assert [port for port in (9093, 9094, 9095) if ("there", port) in played.peers] == [9095]
    played.links[-1].answer(block(1))


def test_a_lost_connection_is_made_again() -> None:
    played = Played()
    played.replica.lead(9093)
    played.ask()
    played.links[0].lost("reset")
    played.scheduler.advance(RETRY_MS)
    played.links[1].answer(block(3))
    assert played.answers == [block(3)]


def test_a_request_without_a_controller_in_time_fails_once() -> None:
    played = Played()
    played.ask()
    played.scheduler.advance(TIMEOUT_MS + RETRY_MS)
    assert [answer.error_code for answer in played.answers] == [error_codes.REQUEST_TIMED_OUT]
    played.replica.lead(9093)
    played.scheduler.advance(TIMEOUT_MS)
    assert (len(played.answers), played.links) == (1, [])


def test_requests_that_the_controller_does_not_serve_are_not_repeated_endlessly() -> None:
    played = Played()
    played.replica.lead(9093)
    from kpywire.messages.unregister_broker import UnregisterBrokerRequest

    played.channel.send(UnregisterBrokerRequest(broker_id=4), played.answers.append)
    played.scheduler.run()
    assert [answer.error_code for answer in played.answers] == [error_codes.UNSUPPORTED_VERSION]


def test_every_forwarded_request_has_an_answer_for_a_missing_controller() -> None:
    forwarded = [api.request_class(key) for key in served_versions() if hasattr(load(key), "forward")]
    assert {CreateTopicsRequest, AddRaftVoterRequest} <= set(forwarded)
    assert [each.__name__ for each in forwarded if each not in error_responses._RESPONSES] == []


def test_a_request_to_a_former_leader_goes_to_the_new_leader() -> None:
    played = Played()
    played.replica.lead(None, here=True)
    played.channel.send(DescribeQuorumRequest(topics=[]), played.answers.append)
    ((_, reply),) = played.replica.asked
    reply(DescribeQuorumResponse(error_code=error_codes.NOT_LEADER_OR_FOLLOWER, error_message=None, topics=[]))
    assert not played.answers
    played.scheduler.advance(RETRY_MS)
    assert len(played.replica.asked) == 2
