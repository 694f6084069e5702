"""The quorum's messages as Kafka's requests and responses, at every version of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    Request,
    Response,
    Vote,
    VoteResponse,
)
from kpybroker.machines.raft.voters import VoterEndpoint
from kpybroker.machines.raft.wire_form import (
    RefusedRequest,
    endpoints_in,
    from_wire,
    refusal,
    response_from_wire,
    response_to_wire,
    to_wire,
)
from kpywire import api, codec, error_codes

CLUSTER_ID = "cluster"
HERE = (VoterEndpoint("CONTROLLER", "here", 9093), VoterEndpoint("SAFE", "here", 9094))
THERE = {7: VoterEndpoint("CONTROLLER", "there", 9094)}

epochs = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
node_ids = st.integers(0, 2**31 - 1)
keys = st.builds(ReplicaKey, node_ids, st.binary(min_size=16, max_size=16))
places = st.builds(OffsetAndEpoch, offsets, epochs)
requests = st.one_of(
    st.builds(Vote, epochs, keys, places, st.booleans(), keys),
    st.builds(BeginQuorumEpoch, epochs, node_ids, keys),
    st.builds(EndQuorumEpoch, epochs, node_ids, st.lists(keys, max_size=4).map(tuple)),
    st.builds(Fetch, epochs, keys, offsets, epochs, offsets, st.integers(0, 10_000), st.integers(0, 2**31 - 1)),
    st.builds(FetchSnapshot, epochs, keys, places, offsets, st.integers(1, 2**31 - 1)),
)
known = st.builds(Known, st.integers(-1, 2**31 - 1), st.integers(-1, 2**31 - 1), st.sampled_from([0, 6, 74, 75]))
optional_places = st.none() | places
fetch_responses = st.builds(
    FetchResponse, known, st.integers(-1, 2**63 - 1), optional_places, optional_places, st.just(())
)


def over_the_wire(message: Any, version: int) -> Any:
    return codec.decode(type(message), version, bytes(codec.encode(message, version)), 0)


@given(requests)
def test_a_request_means_the_same_on_the_other_side(request: Request) -> None:
    message = to_wire(request, CLUSTER_ID, HERE)
    newest = type(message).VERSIONS[-1]
    assert from_wire(over_the_wire(message, newest), CLUSTER_ID) == request


def without_later_fields(request: Any) -> Any:
    """The content that the first version of each request can have: no directories, no question before the vote."""
    if isinstance(request, Vote):
        bare = request._replace(replica=ReplicaKey(request.replica.id), voter=ReplicaKey(-1))
        return bare._replace(pre_vote=False)
    if isinstance(request, BeginQuorumEpoch):
        return request._replace(voter=ReplicaKey(-1))
    if isinstance(request, FetchSnapshot):
        return request._replace(replica=ReplicaKey(request.replica.id))
    return request._replace(preferred_candidates=tuple(ReplicaKey(each.id) for each in request.preferred_candidates))


@given(requests.filter(lambda request: not isinstance(request, Fetch)))
def test_the_first_versions_say_all_that_they_can(request: Request) -> None:
    outgoing = request._replace(pre_vote=False) if isinstance(request, Vote) else request
    message = over_the_wire(to_wire(outgoing, CLUSTER_ID, HERE), 0)
    assert from_wire(message, CLUSTER_ID) == without_later_fields(request)


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (Vote(1, ReplicaKey(1), OffsetAndEpoch(0, 0), False, ReplicaKey(2)), VoteResponse(Known(3, 7, 74), True)),
        (BeginQuorumEpoch(1, 1, ReplicaKey(2)), EpochResponse(Known(3, 7, 0))),
        (EndQuorumEpoch(1, 1, ()), EpochResponse(Known(3, -1, 0))),
        (
            FetchSnapshot(1, ReplicaKey(1), OffsetAndEpoch(9, 2), 3, 100),
            FetchSnapshotResponse(Known(3, 7, 0), OffsetAndEpoch(9, 2), 3, 8, b"batch"),
        ),
    ],
)
def test_a_response_means_the_same_on_the_other_side(request_: Request, response: Response) -> None:
    message = to_wire(request_, CLUSTER_ID, HERE)
    answer = response_to_wire(message, response, THERE)
    assert response_from_wire(over_the_wire(answer, type(answer).VERSIONS[-1])) == (response, b"")
    endpoints = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
    assert endpoints == ([(7, "there", 9094)] if response.known.leader_id == 7 else []), "who leads, and where it is"
    named = {node_id: [VoterEndpoint("MINE", host, port)] for node_id, host, port in endpoints}
    assert endpoints_in(answer, "MINE") == named


@given(fetch_responses, st.sampled_from([12, 15, 18]))
def test_a_fetch_response_means_the_same_on_the_other_side(response: FetchResponse, version: int) -> None:
    message = to_wire(Fetch(1, ReplicaKey(1), 0, 0, -1), CLUSTER_ID, HERE)
    answer = over_the_wire(response_to_wire(message, response, THERE), version)
    assert response_from_wire(answer) == (response, b"")


@pytest.mark.parametrize("request_", [Vote(1, ReplicaKey(1), OffsetAndEpoch(0, 0), False, ReplicaKey(2)),
                                      FetchSnapshot(1, ReplicaKey(1), OffsetAndEpoch(0, 0), 0, 1),
                                      Fetch(1, ReplicaKey(1), 0, 0, -1)])  # fmt: skip
def test_requests_of_other_quorums_are_refused(request_: Request) -> None:
    message = to_wire(request_, "another", HERE)
    refused = from_wire(message, CLUSTER_ID)
    assert refused == RefusedRequest(error_codes.INCONSISTENT_CLUSTER_ID, True)
    answer, _ = response_from_wire(refusal(message, refused))
    assert answer.known == Known(-1, -1, error_codes.INCONSISTENT_CLUSTER_ID)
    message = to_wire(request_, CLUSTER_ID, HERE)
    message.topics = []
    assert from_wire(message, CLUSTER_ID) == RefusedRequest(error_codes.INVALID_REQUEST, True)


def test_a_fetch_from_nowhere_is_refused_in_its_partition() -> None:
    message = to_wire(Fetch(1, ReplicaKey(1), -1, 0, -1), CLUSTER_ID, HERE)
    refused = from_wire(message, CLUSTER_ID)
    assert refused == RefusedRequest(error_codes.INVALID_REQUEST, False)
    answer = refusal(message, refused)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, error_codes.INVALID_REQUEST)


def test_the_requests_are_those_of_kafka() -> None:
    wanted = {api.VOTE: Vote, api.BEGIN_QUORUM_EPOCH: BeginQuorumEpoch, api.END_QUORUM_EPOCH: EndQuorumEpoch}
    one_of_each = [
        Vote(1, ReplicaKey(1), OffsetAndEpoch(0, 0), False, ReplicaKey(2)),
        BeginQuorumEpoch(1, 1, ReplicaKey(2)),
        EndQuorumEpoch(1, 1, ()),
    ]
    assert {type(to_wire(each, CLUSTER_ID, HERE)).KEY: type(each) for each in one_of_each} == wanted


def test_a_leader_tells_where_it_listens() -> None:
    requests: list[Request] = [BeginQuorumEpoch(1, 4, ReplicaKey(2)), EndQuorumEpoch(1, 4, ())]
    for request in requests:
        assert endpoints_in(over_the_wire(to_wire(request, CLUSTER_ID, HERE), 1), "MINE") == {4: list(HERE)}
        assert endpoints_in(over_the_wire(to_wire(request, CLUSTER_ID, ()), 0), "MINE") == {}
