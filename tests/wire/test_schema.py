"""Declared classes: constructors with Kafka's defaults, equality, and defaults that cannot be changed by accident."""

from __future__ import annotations

import subprocess
import sys

import pytest
from all_messages import message_classes

from kpywire.api import API_KEYS, PRODUCE, request_class, response_class
from kpywire.messages.fetch import FetchRequest, LeaderIdAndEpoch, PartitionData
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import ProduceRequest, ProduceResponse
from kpywire.schema import Structure, field, i32, parse_versions, string, struct

MANY = 100
"""Instances of a class, for which a constructor is compiled."""


@struct
class Place:
    """The class of the tests' instances: no other test has made one."""

    name: string = field()
    parts: list[i32] = field()
    size: i32 = field(default=-1)


def test_a_new_message_has_defaults() -> None:
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[])
    assert (request.cluster_id, request.max_bytes, request.session_epoch) == (None, 0x7FFF_FFFF, -1)
    assert request.replica_state.replica_id == -1


def test_messages_are_equal_when_their_fields_are() -> None:
    assert ListOffsetsTopic(name="a", partitions=[]) == ListOffsetsTopic(name="a", partitions=[])
    assert ListOffsetsTopic(name="a", partitions=[]) != ListOffsetsTopic(name="b", partitions=[])
    assert ListOffsetsTopic(name="a", partitions=[]) != "a"


def test_a_message_shows_its_fields() -> None:
    assert repr(ListOffsetsTopic(name="a", partitions=[])) == "ListOffsetsTopic(name='a', partitions=[])"


def test_lists_are_not_shared() -> None:
    first, second = (ListOffsetsRequest(replica_id=-1, topics=[]) for _ in range(2))
    first.topics.append(ListOffsetsTopic(name="a", partitions=[]))
    assert second.topics == []
    for cls in message_classes().values():
        mine, other = cls(), cls()
        for name in cls.FIELDS:
            if isinstance(getattr(mine, name), list):
                assert getattr(mine, name) is not getattr(other, name)


def test_compiled_constructors_behave_like_the_plain_ones() -> None:
    first = Place(name="a", parts=[1])
    assert Place.__init__ is Structure.__init__
    for _ in range(MANY):
        assert Place(name="a", parts=[1]) == first
    assert Place.__init__ is not Structure.__init__


def test_every_message_has_the_same_defaults_from_a_compiled_constructor() -> None:
    for cls in message_classes().values():
        first, *_, last = (cls() for _ in range(MANY))
        assert first == last
    first, *_, last = (PartitionData() for _ in range(MANY))
    assert first.current_leader is last.current_leader


def test_a_default_struct_is_shared_and_refuses_to_change() -> None:
    partition = PartitionData(
        partition_index=1, error_code=0, high_watermark=5, aborted_transactions=None, records=None
    )
    with pytest.raises(AttributeError, match="assign a new one"):
        partition.current_leader.leader_id = 3
    assert partition.current_leader == LeaderIdAndEpoch()
    assert repr(partition.current_leader) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)"
    partition.current_leader = LeaderIdAndEpoch(leader_id=3)
    partition.current_leader.leader_epoch = 4


@pytest.mark.parametrize("name", ["thread", "FIELDS", "max_wait"])
def test_a_field_that_is_not_there_cannot_be_set(name: str) -> None:
    for _ in range(MANY):
        with pytest.raises(TypeError, match=name):
            FetchRequest(**{name: 1})
    with pytest.raises(AttributeError):
        setattr(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), name, 1)


def test_versions_in_kafkas_notation() -> None:
    assert parse_versions("3-5") == range(3, 6)
    assert parse_versions("2") == range(2, 3)
    assert parse_versions("0-14") == range(15)
    assert 0x7FFF in parse_versions("4+")
    assert 3 not in parse_versions("4+")
    assert list(parse_versions("none")) == []


def test_classes_are_found_by_api_key() -> None:
    assert request_class(PRODUCE) is ProduceRequest
    assert response_class(PRODUCE) is ProduceResponse
    for key in API_KEYS:
        assert (key, key) == (request_class(key).KEY, response_class(key).KEY)
        assert request_class(key).VERSIONS == response_class(key).VERSIONS
    with pytest.raises(KeyError):
        request_class(999)


def test_versions_that_kafka_does_not_serve_by_default_are_declared_but_not_in_the_table() -> None:
    unstable = {cls.KEY: cls.UNSTABLE for cls in message_classes().values() if cls.UNSTABLE is not None}
    assert unstable == {InitProducerIdRequest.KEY: 6}
    for key, version in unstable.items():
        assert API_KEYS[key].max_version == version - 1


def test_importing_the_table_of_apis_imports_no_message_and_no_codec() -> None:
    program = "import sys, kpywire.api; print([name for name in sys.modules if name.startswith('kpywire')])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "['kpywire', 'kpywire.api']"


def test_looking_up_a_request_imports_one_module_of_messages() -> None:
    program = (
        "import sys, kpywire.api as api; api.request_class(api.FETCH);"
        "print(sorted(name for name in sys.modules if 'messages.' in name))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "['kpywire.messages.fetch']"
