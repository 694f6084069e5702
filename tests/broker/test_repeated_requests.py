"""A request that is repeated byte for byte is decoded once, and a response that is given again is encoded once."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.requests.dispatching.repeated import LONGEST_BYTES, NO_REQUESTS, Repeated
from kpybroker.requests.dispatching.replies import encode
from kpybroker.requests.dispatching.served import ServedVersion, serve
from kpybroker.requests.handlers import (
    consumer_group_heartbeat,
    controller_versions,
    heartbeat,
    load,
    load_for_controller,
    offset_commit,
    served_versions,
)
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.counters import ApiCounters
from kpywire import api, error_codes
from kpywire.codec import encode as encode_message
from kpywire.error_codes import NONE, REBALANCE_IN_PROGRESS
from kpywire.errors import Malformed
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kpywire.messages.heartbeat import HeartbeatResponse
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.offset_commit import decoder_for


def served_with(module: Any, api_key: int, version: int) -> ServedVersion:
    served = at_once(serve(module, api_key, version, ApiCounters(), None, SimpleNamespace(authorizer=None)))
    assert isinstance(served, ServedVersion)
    return served


@pytest.fixture
def served() -> ServedVersion:
    return served_with(consumer_group_heartbeat, api.CONSUMER_GROUP_HEARTBEAT, 1)


def frame(**fields: Any) -> memoryview:
    message = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 3, **fields})
    return memoryview(bytearray(b"head" + encode_message(message, 1)))


def test_the_same_bytes_are_the_same_message(served: ServedVersion) -> None:
    repeated = Repeated()
    first = repeated.decode(served, frame(), 4)
    assert first.member_epoch == 3
    assert repeated.decode(served, frame(), 4) is first
    other = repeated.decode(served, frame(member_epoch=4), 4)
    assert (other.member_epoch, first.member_epoch) == (4, 3)
    again = repeated.decode(served, frame(), 4)
    assert again == first
    assert again is not first


def test_the_message_does_not_change_with_the_buffer_that_it_was_read_from(served: ServedVersion) -> None:
    repeated = Repeated()
    buffer = frame()
    first = repeated.decode(served, buffer, 4)
    buffer[:] = bytes(len(buffer))
    assert repeated.decode(served, frame(), 4) is first
    assert first.group_id == "g"


def test_bytes_that_cannot_be_read_are_refused_each_time(served: ServedVersion) -> None:
    repeated = Repeated()
    first = repeated.decode(served, frame(), 4)
    for broken in (frame()[:-3], memoryview(b"head")):
        for _ in range(2):
            with pytest.raises((Malformed, IndexError)):
                repeated.decode(served, broken, 4)
    assert repeated.decode(served, frame(), 4) is first


def test_a_long_request_is_not_kept(served: ServedVersion) -> None:
    repeated = Repeated()
    long = frame(rack_id="r" * LONGEST_BYTES)
    assert repeated.decode(served, long, 4) is not repeated.decode(served, long, 4)


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_reply_that_is_given_again_has_the_same_bytes_and_counts_the_same(version: int) -> None:
    repeated = Repeated()
    served = served_with(heartbeat, api.HEARTBEAT, version)
    plain = served_with(heartbeat, api.HEARTBEAT, version)
    alive = HeartbeatResponse(error_code=error_codes.NONE)
    rebalancing = HeartbeatResponse(error_code=error_codes.REBALANCE_IN_PROGRESS)
    for number, response in enumerate([alive, alive, rebalancing, rebalancing, alive, alive, alive]):
        correlation_id = number << 24 | number
        assert repeated.encode(served, correlation_id, response) == encode(plain, correlation_id, response)
    assert served.counters.error_codes == plain.counters.error_codes == {error_codes.REBALANCE_IN_PROGRESS: 2}
    assert served.counters.response_bytes == plain.counters.response_bytes


def committed(*codes: int) -> OffsetCommitResponse:
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in enumerate(codes)
    ]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", topic_id=bytes(16), partitions=partitions)])


@pytest.mark.parametrize("version", [2, 5, 10])
def test_only_the_replies_of_repeated_commits_are_kept(version: int) -> None:
    repeated = Repeated(NO_REQUESTS)
    served = served_with(offset_commit, api.OFFSET_COMMIT, version)
    plain = served_with(offset_commit, api.OFFSET_COMMIT, version)
    commit = memoryview(bytearray(encode_message(OffsetCommitRequest(group_id="g", member_id="", topics=[]), version)))
    assert repeated.decode(served, commit, 0) is not repeated.decode(served, commit, 0)
    done, half = committed(NONE, NONE), committed(NONE, REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS)
    for correlation_id, response in enumerate([done, done, half, half, half, done]):
        assert repeated.encode(served, correlation_id, response) == encode(plain, correlation_id, response)
    assert served.counters.error_codes == plain.counters.error_codes == {REBALANCE_IN_PROGRESS: 6}
    assert served.counters.response_bytes == plain.counters.response_bytes


def test_a_long_reply_is_not_kept(served: ServedVersion) -> None:
    repeated = Repeated()
    response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=1, error_message="no" * LONGEST_BYTES, member_epoch=0, heartbeat_interval_ms=0
    )
    first = repeated.encode(served, 1, response)
    response.error_message = "yes"
    assert len(repeated.encode(served, 1, response)) < len(first)


def test_every_request_is_served_in_its_first_and_last_version() -> None:
    for found, of_listener in ((load, served_versions()), (load_for_controller, controller_versions())):
        for key, versions in of_listener.items():
            for version in set(versions):
                assert served_with(found(key), key, version).decode


def test_commits_are_decoded_by_the_decoder_of_their_own() -> None:
    for version in (2, 5, 10):
        served = served_with(offset_commit, api.OFFSET_COMMIT, version)
        assert served.decode == decoder_for(version).decode
