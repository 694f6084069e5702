"""Answers of a leader of the quorum to other nodes, and to clients that are none: errors as Apache Kafka's."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.test_protocol_controller import node as node
from kpywire import api, error_codes
from kpywire.messages.fetch import ReplicaState
from oracle import BrokerProcess
from support.admin_requests import quorum_of
from support.quorum_requests import (
    METADATA,
    UNKNOWN_ID,
    addition_of,
    begin_of,
    end_of,
    fetch_of,
    plausible_quorum,
    removal_of,
    snapshot_of,
    update_of,
    vote_of,
)
from support.raw_client import RawClient

ANOTHER = "another-cluster-of-22ch"
ELSEWHERE = bytes(range(50, 66))


@pytest.fixture
def controller(node: tuple[BrokerProcess, int]) -> Iterator[RawClient]:
    with RawClient(node[1]) as client:
        yield client


@pytest.fixture
def epoch(controller: RawClient) -> int:
    (partition,) = controller.call(quorum_of((METADATA, [0])), 2).topics[0].partitions
    return int(partition.leader_epoch)


def newest(key: int) -> int:
    return api.API_KEYS[key].max_version


def test_every_version_is_answered(controller: RawClient) -> None:
    for key, request in plausible_quorum().items():
        first = 12 if key == api.FETCH else api.API_KEYS[key].min_version
        for version in range(first, newest(key) + 1):
            controller.call(as_of(key, version, request), version)


def as_of(key: int, version: int, request: Any) -> Any:
    """A request as far as its version can say it."""
    if key == api.VOTE:
        return vote_of(0, pre_vote=version >= 2)
    if key == api.FETCH and version < 15:
        request = fetch_of(0, replica_id=UNKNOWN_ID, replica_state=ReplicaState())
    return request


def whole_and_partition(controller: RawClient, key: int, request: object) -> tuple[int, int | None]:
    """The error of a response, and of its only partition."""
    response = controller.call(request, newest(key))
    topics = response.responses if key == api.FETCH else response.topics
    if not topics:
        return response.error_code, None
    (partition,) = topics[0].partitions
    return response.error_code, partition.error_code


INCONSISTENT = (error_codes.INCONSISTENT_CLUSTER_ID, None)
INVALID = (error_codes.INVALID_REQUEST, None)


def test_another_cluster_is_refused(controller: RawClient, epoch: int) -> None:
    requests = {
        api.VOTE: vote_of(epoch, cluster_id=ANOTHER),
        api.BEGIN_QUORUM_EPOCH: begin_of(epoch, 1, cluster_id=ANOTHER),
        api.END_QUORUM_EPOCH: end_of(epoch, 1, cluster_id=ANOTHER),
        api.FETCH: fetch_of(epoch, cluster_id=ANOTHER),
        api.FETCH_SNAPSHOT: snapshot_of(epoch, 0, 0, cluster_id=ANOTHER),
    }
    for key, request in requests.items():
        assert whole_and_partition(controller, key, request) == INCONSISTENT, api.API_KEYS[key].name
    for request in (addition_of(UNKNOWN_ID, cluster_id=ANOTHER), removal_of(UNKNOWN_ID, cluster_id=ANOTHER)):
        response = controller.call(request, 0)
        assert response.error_code == error_codes.INCONSISTENT_CLUSTER_ID
        assert response.error_message.startswith(f'The given id "{ANOTHER}" doesn\'t match the cluster id "')
    update = controller.call(update_of(epoch, UNKNOWN_ID, cluster_id=ANOTHER), 0)
    assert update.error_code == error_codes.INCONSISTENT_CLUSTER_ID


def test_another_topic_is_refused(controller: RawClient, epoch: int) -> None:
    requests = {
        api.VOTE: vote_of(epoch, topic="orders"),
        api.BEGIN_QUORUM_EPOCH: begin_of(epoch, 1, topic="orders"),
        api.END_QUORUM_EPOCH: end_of(epoch, 1, topic="orders"),
        api.FETCH: fetch_of(epoch, topic_id=ELSEWHERE),
    }
    for key, request in requests.items():
        assert whole_and_partition(controller, key, request) == INVALID, api.API_KEYS[key].name


def test_epochs_and_keys_are_checked(controller: RawClient, epoch: int) -> None:
    old = (error_codes.NONE, error_codes.FENCED_LEADER_EPOCH)
    new = (error_codes.NONE, error_codes.UNKNOWN_LEADER_EPOCH)
    invalid = (error_codes.NONE, error_codes.INVALID_REQUEST)
    wrong_key = (error_codes.NONE, error_codes.INVALID_VOTER_KEY)
    for key, request, expected in (
        (api.VOTE, vote_of(epoch - 1), old),
        (api.VOTE, vote_of(epoch, last_offset_epoch=epoch + 1), invalid),
        (api.VOTE, vote_of(epoch, last_offset=-1), invalid),
        (api.VOTE, vote_of(epoch, voter_id=2), wrong_key),
        (api.VOTE, vote_of(epoch, voter_directory_id=ELSEWHERE), wrong_key),
        (api.VOTE, vote_of(epoch), (error_codes.NONE, error_codes.NONE)),
        (api.BEGIN_QUORUM_EPOCH, begin_of(epoch - 1, 1), old),
        (api.BEGIN_QUORUM_EPOCH, begin_of(epoch, -1), invalid),
        (api.BEGIN_QUORUM_EPOCH, begin_of(epoch, 1, voter_id=2), wrong_key),
        (api.END_QUORUM_EPOCH, end_of(epoch - 1, 1), old),
        (api.FETCH, fetch_of(epoch - 1), old),
        (api.FETCH, fetch_of(epoch + 1), new),
        (api.FETCH, fetch_of(epoch, -1), invalid),
        (api.FETCH, fetch_of(epoch, 1, last_fetched_epoch=-1), invalid),
    ):
        assert whole_and_partition(controller, key, request) == expected, (api.API_KEYS[key].name, request)


def test_a_wrong_fetch_snapshot_request_gets_its_error_code(
    controller: RawClient, epoch: int, startable_target: str
) -> None:
    """Apache Kafka 4.3.1 finds the same errors and then cannot encode its answer, since it has no bytes."""
    for request, code in (
        (snapshot_of(epoch, 0, 0, topic="orders"), error_codes.UNKNOWN_TOPIC_OR_PARTITION),
        (snapshot_of(epoch - 1, 0, 0), error_codes.FENCED_LEADER_EPOCH),
        (snapshot_of(epoch + 1, 0, 0), error_codes.UNKNOWN_LEADER_EPOCH),
        (snapshot_of(epoch, 9_999, 1), error_codes.SNAPSHOT_NOT_FOUND),
    ):
        answer = whole_and_partition(controller, api.FETCH_SNAPSHOT, request)
        is_kafka = startable_target != "kpybroker"
        assert answer == ((error_codes.UNKNOWN_SERVER_ERROR, None) if is_kafka else (error_codes.NONE, code))


def test_the_log_is_given_and_where_logs_part(controller: RawClient, epoch: int) -> None:
    (response,) = controller.call(fetch_of(epoch), newest(api.FETCH)).responses
    (partition,) = response.partitions
    assert partition.records
    assert partition.high_watermark > 0
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, epoch)
    (response,) = controller.call(fetch_of(epoch, 1_000_000, last_fetched_epoch=epoch), newest(api.FETCH)).responses
    (partition,) = response.partitions
    assert partition.error_code == error_codes.NONE
    assert partition.diverging_epoch.epoch == epoch
    assert 0 < partition.diverging_epoch.end_offset < 1_000_000


def test_voters_are_not_changed_by_what_makes_no_sense(controller: RawClient, epoch: int) -> None:
    for request, code, message in (
        (addition_of(-1), error_codes.INVALID_REQUEST, "Add voter request didn't include a valid voter"),
        (
            addition_of(UNKNOWN_ID, "ELSEWHERE"),
            error_codes.INVALID_REQUEST,
            "Add voter request didn't include the endpoint (",
        ),
        (removal_of(-1), error_codes.INVALID_REQUEST, "Remove voter request didn't include a valid voter"),
    ):
        response = controller.call(request, 0)
        assert response.error_code == code
        assert response.error_message.startswith(message), response.error_message
    unreachable = controller.call(addition_of(UNKNOWN_ID), 0)
    assert unreachable.error_code == error_codes.REQUEST_TIMED_OUT
    assert unreachable.error_message.endswith("since API_VERSIONS returned an error BROKER_NOT_AVAILABLE")
    update = controller.call(update_of(epoch - 1, 1), 0)
    assert update.error_code == error_codes.FENCED_LEADER_EPOCH
    assert (update.current_leader.leader_id, update.current_leader.leader_epoch) == (1, epoch)
    assert controller.call(update_of(epoch, UNKNOWN_ID), 0).error_code == error_codes.VOTER_NOT_FOUND
