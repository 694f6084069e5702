"""Existing consoles start: the requests of ``consoles.toml`` are answered without an error, in their order.

Each is sent in the version of the console's library, and once more in the highest that this broker and we know, which a
newer library would send. Apache Kafka has to pass too.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kpybroker.machines.answered_errors import errors_in
from kpywire import api, error_codes
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kpywire.messages.metadata import MetadataRequest
from protocol.test_protocol_versions import advertised
from support.admin_requests import acl_filter
from support.group_requests import commit, coordinator_ready
from support.plausible_requests import plausible
from support.raw_client import RawClient
from support.raw_requests import append

CONSOLES = tomllib.loads((Path(__file__).with_name("consoles.toml")).read_text())
KEYS = {entry.name: entry for entry in api.API_KEYS.values()}
BROKER_RESOURCE = 4
GROUP = "g"
"""The group of ordinary requests."""
WITHOUT_AUTHORIZER = ("DescribeAcls", error_codes.SECURITY_DISABLED)
"""Kafka's answer where no authorizer is configured. Every console knows it."""
OF_KRAFT = ("DescribeTopicPartitions", "DescribeQuorum", "ConsumerGroupDescribe")
"""The APIs that a broker in ZooKeeper mode does not serve."""
WITH_AN_ID = {"Fetch": 13, "OffsetFetch": 10}
"""From this version on an ordinary request names its topic by an id, which a console has from its metadata."""


def special(name: str, word: str, topic: str, broker: int) -> Any:
    """A request for everything, of a broker, or for one end of a partition."""
    configs = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=None)
    end = ListOffsetsPartition(partition_index=0, timestamp=-2 if word == "earliest" else -1)
    found = {
        ("Metadata", "all"): MetadataRequest(topics=None),
        ("DescribeAcls", "all"): DescribeAclsRequest(**acl_filter()),
        ("DescribeClientQuotas", "all"): DescribeClientQuotasRequest(components=[], strict=False),
        ("DescribeUserScramCredentials", "all"): DescribeUserScramCredentialsRequest(users=None),
        ("ListPartitionReassignments", "all"): ListPartitionReassignmentsRequest(topics=None, timeout_ms=1000),
        ("DescribeConfigs", "broker"): DescribeConfigsRequest(resources=[configs], include_synonyms=True),
    }
    if name == "ListOffsets":
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[end])])
    return found[name, word]


def errors_of(answer: Any) -> list[int]:
    codes: list[int] = []
    find = errors_in(type(answer))
    if find is not None:
        find(answer, codes)
    return codes


@pytest.fixture
def prepared(raw: RawClient, topic: str) -> tuple[str, int]:
    """A topic with a record, and a group that has committed to it; with the id of the broker."""
    append(raw, topic, 1_700_000_000_000)
    (node,) = raw.call(MetadataRequest(topics=[]), 12).brokers
    coordinator_ready(raw, GROUP)
    assert commit(raw, GROUP, topic, (0, 1, "")) == {0: error_codes.NONE}
    return topic, node.node_id


@pytest.mark.parametrize("console", CONSOLES)
def test_a_console_starts(raw: RawClient, prepared: tuple[str, int], console: str, in_zookeeper_mode: bool) -> None:
    topic, broker = prepared
    promised = advertised(raw)
    for call in CONSOLES[console]["calls"]:
        name, number, *words = call.split()
        entry = KEYS[name]
        if in_zookeeper_mode and name in OF_KRAFT:
            assert entry.key not in promised  # a console does without
            continue
        highest = min(promised[entry.key][1], entry.max_version, WITH_AN_ID.get(name, 1000) - 1)
        assert promised[entry.key][0] <= int(number) <= highest, f"{call} is not served"
        for version in (int(number), highest):
            word = words[0] if words else ""
            request = special(name, word, topic, broker) if word else plausible(entry.key, version, topic)
            answer = raw.call(request, version)
            allowed = WITHOUT_AUTHORIZER[1:] if name == WITHOUT_AUTHORIZER[0] else ()
            assert [code for code in errors_of(answer) if code not in allowed] == [], f"{call}, version {version}"


@pytest.mark.parametrize("console", [name for name, each in CONSOLES.items() if "supports" in each])
def test_the_pages_of_a_console_that_asks_for_apis_are_all_shown(raw: RawClient, console: str) -> None:
    promised = advertised(raw)
    assert [name for name in CONSOLES[console]["supports"] if KEYS[name].key not in promised] == []


@pytest.mark.parametrize("console", CONSOLES)
def test_a_console_finds_what_it_shows(
    raw: RawClient, prepared: tuple[str, int], console: str, in_zookeeper_mode: bool
) -> None:
    """The version of the cluster, its controller, sizes, and configs of a broker."""
    topic, broker = prepared
    calls = CONSOLES[console]["calls"]
    if any(call.startswith("DescribeCluster ") for call in calls):
        assert raw.call(plausible(api.DESCRIBE_CLUSTER, 1, topic), 1).controller_id == broker
    features = raw.call(plausible(api.API_VERSIONS, 3, topic), 3)
    levels = {each.name: each.max_version_level for each in features.finalized_features}
    assert levels == {} if in_zookeeper_mode else levels["metadata.version"] > 0
    if any(call.startswith("DescribeLogDirs ") for call in calls):
        (directory,) = raw.call(plausible(api.DESCRIBE_LOG_DIRS, 4, topic), 4).results
        (found,) = [each for each in directory.topics if each.name == topic]
        assert found.partitions[0].partition_size > 0
        assert directory.total_bytes > directory.usable_bytes > 0
    if "DescribeConfigs 4 broker" in calls:
        (answer,) = raw.call(special("DescribeConfigs", "broker", topic, broker), 4).results
        assert {"delete.topic.enable", "num.partitions"} <= {each.name for each in answer.configs}
