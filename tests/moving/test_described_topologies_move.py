"""A streams group with the description of its topology, on a directory that both brokers serve by turns.

Apache Kafka reads over the description, and its plug-in asks for one of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tenant import Tenant, check
from test_apache_kafka_4_4 import formatted

from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import Topology
from oracle import ApacheKafka, BrokerProcess
from oracle.jars import KAFKA_BEFORE
from support.group_requests import coordinator_ready
from support.raw_client import RawClient
from support.streams_requests import IN_MEMORY_PLUGIN, describing, source_of, streaming
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

GROUP, MEMBER, TOPIC = "described", "m", "lines"
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.topology.description.plugin.class": IN_MEMORY_PLUGIN,
}
SHAPE = Topology(epoch=0, subtopologies=[source_of("0", TOPIC)])


@contextmanager
def served(node: BrokerProcess) -> Iterator[RawClient]:
    with node, RawClient(node.port) as raw:
        coordinator_ready(raw, GROUP)
        yield raw


def shown(raw: RawClient, version: int = 1) -> Any:
    wanted = {"include_topology_description": True} if version else {}
    request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False, **wanted)
    (found,) = raw.call(request, version).groups
    assert found.error_code == error_codes.NONE, found
    assert [each.member_id for each in found.members] == [MEMBER]
    return found


def described(raw: RawClient) -> list[str]:
    description = shown(raw).topology_description
    return [] if description is None else [node.name for each in description.subtopologies for node in each.nodes]


def test_a_described_group_moves_to_apache_kafka_and_back(tmp_path: Path) -> None:
    kafka = formatted(tmp_path, "--release-version", "4.3", properties=PROPERTIES)
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    with served(Tenant(kafka)) as raw:
        raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        eventually(lambda: raw.call(streaming(GROUP, MEMBER, 0, topology=SHAPE), 1).error_code == 0, "a member")
        assert raw.call(describing(GROUP, MEMBER), 0).error_code == error_codes.NONE
        assert described(raw) == ["source", "sum", "sink"]
        epoch = shown(raw).members[0].member_epoch
    with served(kafka) as raw:
        assert described(raw) == []
        assert raw.call(streaming(GROUP, MEMBER, epoch), 1).topology_description_required
        assert raw.call(describing(GROUP, MEMBER, nodes=[]), 0).error_code == error_codes.NONE
        assert shown(raw).topology_description_status == 3
    with served(Tenant(kafka)) as raw:
        assert described(raw) == ["source", "sum", "sink"]
    before = ApacheKafka(kafka.properties, directory=tmp_path, port=kafka.port, release=KAFKA_BEFORE)
    before.start_timeout_s = Tenant.start_timeout_s
    with served(before) as raw:
        shown(raw, 0)
    with served(Tenant(kafka)) as raw:
        assert described(raw) == ["source", "sum", "sink"]
    check(kafka.data)
