"""Addresses of the quorum's nodes: the configured one counts again when the reported one leads to another node."""

from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.quorum.peers import QuorumPeers, Whereabouts
from kpybroker.machines.raft.messages import Fetch, FetchResponse, Known, ReplicaKey
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory, voter_set
from kpybroker.machines.raft.wire_form import response_to_wire, to_wire
from kpywire import error_codes

WRITTEN = VoterEndpoint("CONTROLLER", "written", 2)
ANNOUNCED = VoterEndpoint("", "told", 3)
FETCH = Fetch(1, ReplicaKey(1), 0, 0, -1)


class Places:
    """Notes who is asked, and answers when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.kept: list[tuple[str, int]] = []
        self.answer: Callable[[Any], object] = lambda _answer: None

    def at(self, host: str, _port: int) -> "Places":
        self.asked.append(host)
        return self

    def keep(self, addresses: list[tuple[str, int]]) -> None:
        self.kept = addresses

    def send(self, message: Any, done: Callable[[Any], object]) -> None:
        def answer(response: Any) -> None:
            done(response if isinstance(response, NoResponse) else response_to_wire(message, response, {}))

        self.answer = answer


@pytest.mark.parametrize("error_code", [error_codes.INVALID_VOTER_KEY, error_codes.NOT_LEADER_OR_FOLLOWER])
def test_a_node_with_another_id_than_expected_is_not_asked_again(error_code: int) -> None:
    places: Any = Places()
    where = Whereabouts("c", "CONTROLLER", ())
    peers = QuorumPeers(places, where, 1, VoterHistory([Voter(2, endpoints=(WRITTEN,))]))
    peers.learn(response_to_wire(to_wire(FETCH, "c", ()), FetchResponse(Known(1, 2)), {2: ANNOUNCED}))
    for response in (FetchResponse(Known(1, 2)), FetchResponse(Known(1, -1, error_code)), None):
        assert peers.send(2, FETCH, lambda *_, **_named: None)
        if response is not None:
            places.answer(response)
    assert places.asked == ["told", "told", "written"]


def test_the_error_of_a_peer_is_kept_until_it_answers_or_leaves_the_quorum() -> None:
    places: Any = Places()
    history = VoterHistory([Voter(2, endpoints=(WRITTEN,))])
    peers = QuorumPeers(places, Whereabouts("c", "CONTROLLER", ()), 1, history)

    def ask(answer: Any) -> dict[str, str]:
        assert peers.send(2, FETCH, lambda *_, **_named: None)
        places.answer(answer)
        if peers.is_stale(-1):
            peers.prune(-1)
        return dict(peers.troubles)

    assert ask(NoResponse("Connection refused")) == {"written:2": "Connection refused"}
    another = error_codes.INCONSISTENT_CLUSTER_ID
    assert ask(FetchResponse(Known(1, -1, another))) == {"written:2": error_codes.message(another)}
    assert ask(FetchResponse(Known(1, 2))) == {}
    assert ask(NoResponse("Connection refused"))
    history.add_voters(7, voter_set([Voter(4)]))
    peers.prune(-1)
    assert peers.troubles == {}


def test_connections_to_former_addresses_of_the_quorum_are_closed() -> None:
    places: Any = Places()
    history = VoterHistory(
        [Voter(2, endpoints=(WRITTEN,)), Voter(4, endpoints=(VoterEndpoint("CONTROLLER", "four", 4),))]
    )
    peers = QuorumPeers(places, Whereabouts("c", "CONTROLLER", (), [("first", 1)]), 1, history)
    peers.prune(-1)
    assert sorted(places.kept) == [("first", 1), ("four", 4), ("written", 2)]
    peers.learn(response_to_wire(to_wire(FETCH, "c", ()), FetchResponse(Known(1, 2)), {2: ANNOUNCED, 9: ANNOUNCED}))
    assert peers.is_stale(-1)
    peers.prune(-1)
    assert sorted(places.kept) == [("first", 1), ("four", 4), ("told", 3)]
    assert peers.endpoint(9) is None  # a stranger that does not lead
    assert not peers.is_stale(-1)
    history.add_voters(7, voter_set([Voter(2, endpoints=(WRITTEN,))]))
    assert peers.is_stale(-1)
    peers.prune(4)
    assert sorted(places.kept) == [("first", 1), ("told", 3)]
