"""The administrative requests on the wire, at each version: what one node answers, and what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import NewTopic
from kpywire import error_codes
from kpywire.messages.create_acls import AclCreationResult, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.describe_quorum import DescribeQuorumResponse, DescribeQuorumResponsePartitionData
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kpywire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_config_resources import ListConfigResourcesRequest
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.record import Record, build_batch
from support.admin_requests import acl, acl_filter, quorum_of
from support.raw_client import RawClient
from support.raw_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    INVALID_NAMES,
    SET,
    TOPIC,
    changed,
    configs_become,
    incremental_alteration,
    now_ms,
    produce,
)
from support.targets import EXTERNAL
from support.waiting import eventually

METADATA = "__cluster_metadata"
NOT_HOSTED = "This server does not host this topic-partition."
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


@pytest.fixture
def _of_ours(target: str) -> None:
    if target == EXTERNAL:
        pytest.skip("needs a broker with the node id 1, and --bootstrap-server names one of somebody else")


# DescribeQuorum


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described(raw: RawClient, version: int) -> None:
    before_ms = now_ms()
    response: DescribeQuorumResponse = raw.call(quorum_of((METADATA, [0])), version)
    assert (response.error_code, response.error_message) == (error_codes.NONE, "")
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index, partition.error_code) == (METADATA, 0, error_codes.NONE)
    assert partition.error_message == ""
    assert partition.leader_epoch > 0
    (voter,) = partition.current_voters
    assert voter.replica_id == partition.leader_id
    assert 0 < partition.high_watermark <= voter.log_end_offset
    assert partition.observers == []
    if version >= 1:
        assert before_ms - 1000 <= voter.last_fetch_timestamp == voter.last_caught_up_timestamp <= now_ms() + 1000
    else:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (-1, -1)
    assert (voter.replica_directory_id == bytes(16)) == (version < 2)
    assert [node.node_id for node in response.nodes] == ([voter.replica_id] if version >= 2 else [])


@pytest.mark.parametrize("version", range(3))
def test_only_the_metadata_log_has_a_quorum(raw: RawClient, topic: str, version: int) -> None:
    def refused(index: int) -> DescribeQuorumResponsePartitionData:
        return DescribeQuorumResponsePartitionData(
            partition_index=index,
            error_code=error_codes.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=NOT_HOSTED if version >= 2 else "",
            leader_id=0,
            leader_epoch=0,
            high_watermark=0,
            current_voters=[],
            observers=[],
        )

    asked: list[tuple[tuple[str, list[int]], ...]] = [
        (),
        ((METADATA, []),),
        ((METADATA, [0, 1]),),
        ((topic, [0]),),
        ((METADATA, [0]), (topic, [0])),
    ]
    for topics in asked:
        response = raw.call(quorum_of(*topics), version)
        assert (response.error_code, response.nodes) == (error_codes.NONE, [])
        answered = [(answer.topic_name, answer.partitions) for answer in response.topics]
        assert answered == [(name, [refused(index) for index in indexes]) for name, indexes in topics]


# UpdateFeatures


def update(*levels: tuple[str, int, int], validate_only: bool = True) -> UpdateFeaturesRequest:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in levels
    ]
    return UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates, validate_only=validate_only)


REFUSED_UPDATES = {
    ("metadata.version", 34, UPGRADE): "Local controller 1 only supports versions 7-33",
    ("metadata.version", 6, SAFE_DOWNGRADE): "Local controller 1 only supports versions 7-33",
    ("metadata.version", 0, SAFE_DOWNGRADE): "Local controller 1 only supports versions 7-33",
    ("metadata.version", -1, SAFE_DOWNGRADE): "A feature version cannot be less than 0.",
    ("metadata.version", 33, 0): "The controller does not support the given upgrade type.",
    ("metadata.version", 33, 9): "The controller does not support the given upgrade type.",
    ("metadata.version", 29, UPGRADE): (
        "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
        "downgrade."
    ),
    ("kraft.version", 0, SAFE_DOWNGRADE): "Can't downgrade the version of this feature.",
    ("kraft.version", 2, UPGRADE): "Local controller 1 only supports versions 0-1",
    ("no.such.version", 1, UPGRADE): "Local controller 1 does not support this feature.",
    ("no.such.version", 0, SAFE_DOWNGRADE): "Feature no.such.version not found.",
    ("", 1, UPGRADE): "Local controller 1 does not support this feature.",
}


@pytest.mark.usefixtures("_of_ours")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("wanted", REFUSED_UPDATES, ids=str)
def test_invalid_feature_levels_are_refused(raw: RawClient, wanted: tuple[str, int, int], version: int) -> None:
    name, level, _ = wanted
    for levels in ((wanted,), (("metadata.version", 33, UPGRADE), wanted)):
        if levels[0] != wanted and name == "metadata.version":
            continue
        response = raw.call(update(*levels), version)
        refusal = f"{FAILED}Invalid update version {level} for feature {name}. {REFUSED_UPDATES[wanted]}"
        assert (response.error_code, response.error_message) == (error_codes.INVALID_UPDATE_VERSION, refusal)
        assert response.results == []


@pytest.mark.parametrize("version", [1, 2])
def test_metadata_are_not_lost_by_a_downgrade(raw: RawClient, version: int) -> None:
    for level, kind, why in (
        (
            29,
            SAFE_DOWNGRADE,
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (7, UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported in this version."),
    ):
        response = raw.call(update(("metadata.version", level, kind)), version)
        refusal = f"{FAILED}Unsupported metadata.version downgrade from 33 to {level}. {why}"
        assert (response.error_code, response.error_message) == (error_codes.INVALID_UPDATE_VERSION, refusal)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_can_be_what_it_is(raw: RawClient, version: int) -> None:
    request = update(("metadata.version", 33, UPGRADE), ("kraft.version", 1, UPGRADE), validate_only=False)
    if version == 0:
        for key in request.feature_updates:
            key.allow_downgrade = True  # is not looked at
    response = raw.call(request, version)
    assert (response.error_code, response.error_message) == (error_codes.NONE, None)
    results = [(result.feature, result.error_code, result.error_message) for result in response.results]
    both = [("metadata.version", error_codes.NONE, "NONE"), ("kraft.version", error_codes.NONE, "NONE")]
    assert results == (both if version < 2 else [])
    assert raw.call(UpdateFeaturesRequest(timeout_ms=0, feature_updates=[]), version).error_code == error_codes.NONE


# ElectLeaders and reassignments


def elected(response: ElectLeadersResponse) -> list[tuple[str, int, int, str | None]]:
    return [
        (result.topic, one.partition_id, one.error_code, one.error_message)
        for result in response.replica_election_results
        for one in result.partition_result
    ]


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_partitions_with_their_preferred_leader_need_no_election(
    raw: RawClient, new_topic: NewTopic, version: int, kind: int, in_zookeeper_mode: bool
) -> None:
    topic = new_topic(partitions=2)
    wanted = [TopicPartitions(topic=topic, partitions=[0, 1, 2, 0]), TopicPartitions(topic="nope", partitions=[0])]
    request = ElectLeadersRequest(topic_partitions=wanted, timeout_ms=10_000)
    if version >= 1:
        request.election_type = kind
    response = raw.call(request, version)
    needless = (error_codes.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert response.error_code == error_codes.NONE
    if in_zookeeper_mode:
        missing = (unknown, "The partition does not exist.")
        found = [(topic, 0, *needless), (topic, 1, *needless), (topic, 2, *missing), ("nope", 0, *missing)]
        assert sorted(elected(response)) == sorted(found)
        return
    assert elected(response) == [
        (topic, 0, *needless),
        (topic, 1, *needless),
        (topic, 2, unknown, f"No such partition as {topic}-2"),
        (topic, 0, *needless),
        ("nope", 0, unknown, "No such topic as nope"),
    ]


@pytest.mark.parametrize("version", range(3))
def test_an_election_of_all_partitions_lists_only_elected_ones(
    raw: RawClient, topic: str, version: int, in_zookeeper_mode: bool
) -> None:
    response = raw.call(ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), version)
    assert (response.error_code, elected(response)) == (error_codes.NONE, [])
    assert (topic in {result.topic for result in response.replica_election_results}) is not in_zookeeper_mode


@pytest.mark.parametrize("version", range(3))
def test_an_election_without_time_or_of_an_unknown_type_is_refused(
    raw: RawClient, topic: str, version: int, in_zookeeper_mode: bool
) -> None:
    wanted = [TopicPartitions(topic=topic, partitions=[0])]
    response = raw.call(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=0), version)
    late = error_codes.REQUEST_TIMED_OUT
    if in_zookeeper_mode:  # it is found needless before time counts
        needless = (topic, 0, error_codes.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        assert (response.error_code, elected(response)) == (error_codes.NONE, [needless])
        return
    assert (response.error_code, elected(response)) == (late if version else 0, [(topic, 0, late, None)])
    if version >= 1:
        response = raw.call(ElectLeadersRequest(election_type=7, topic_partitions=wanted, timeout_ms=10_000), version)
        code = error_codes.INVALID_REQUEST
        assert (response.error_code, elected(response)) == (code, [(topic, 0, code, "Unknown election type 7")])


def test_no_partition_is_moving(raw: RawClient, topic: str, in_zookeeper_mode: bool) -> None:
    nothing = "" if in_zookeeper_mode else None
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in (topic, "nope")]
    for topics in (None, [], named):
        for timeout_ms in (10_000, 0, -1):
            response = raw.call(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms), 0)
            assert (response.error_code, response.error_message, response.topics) == (error_codes.NONE, nothing, [])


# UnregisterBroker


@pytest.mark.parametrize("broker_id", [77, -1])
def test_a_broker_that_is_not_there_cannot_leave(raw: RawClient, broker_id: int) -> None:
    response = raw.call(UnregisterBrokerRequest(broker_id=broker_id), 0)
    text = f"Broker ID {broker_id} is not currently registered"
    assert (response.error_code, response.error_message) == (error_codes.BROKER_ID_NOT_REGISTERED, text)


# UnregisterController


@pytest.mark.parametrize("controller_id", [77, -1])
def test_a_controller_that_is_not_there_cannot_leave(raw: RawClient, controller_id: int) -> None:
    response = raw.call(UnregisterControllerRequest(controller_id=controller_id), 0)
    text = f"Controller ID {controller_id} is not currently registered."
    assert (response.error_code, response.error_message) == (error_codes.CONTROLLER_ID_NOT_REGISTERED, text)


def test_the_active_controller_cannot_leave(raw: RawClient) -> None:
    response = raw.call(UnregisterControllerRequest(controller_id=1), 0)
    text = "Controller cannot unregister itself while it is active."
    assert (response.error_code, response.error_message) == (error_codes.INVALID_REQUEST, text)


# ListConfigResources


@pytest.fixture
def configured(raw: RawClient, topic: str) -> Any:
    """Resources of all types: a topic, a group and a subscription of this test; taken away again."""
    resources = {TOPIC: topic, GROUP: f"{topic}-group", CLIENT_METRICS: f"{topic}-metrics"}
    settings = {GROUP: ("consumer.session.timeout.ms", "50000"), CLIENT_METRICS: ("interval.ms", "60000")}
    for kind, (key, value) in settings.items():
        assert set(changed(raw, incremental_alteration((kind, resources[kind], [(key, SET, value)])), 1).values()) == {
            (error_codes.NONE, None)
        }
        configs_become(raw, kind, resources[kind], {key: value})
    yield resources
    for kind, (key, _) in settings.items():
        changed(raw, incremental_alteration((kind, resources[kind], [(key, 1, None)])), 1)


def listed(raw: RawClient, kinds: list[int], version: int = 1) -> list[tuple[int, str]]:
    response = raw.call(ListConfigResourcesRequest(resource_types=kinds), version)
    assert response.error_code == error_codes.NONE
    return [(found.resource_type, found.resource_name) for found in response.config_resources]


@pytest.mark.usefixtures("_of_ours")
def test_resources_with_configs_are_listed(raw: RawClient, configured: dict[int, str]) -> None:
    everything = listed(raw, [])
    assert len(set(everything)) == len(everything)
    assert {*configured.items(), (BROKER, "1"), (BROKER_LOGGER, "1")} <= set(everything)
    for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP):
        assert set(listed(raw, [kind])) == {found for found in everything if found[0] == kind}
    assert set(listed(raw, [GROUP, BROKER, GROUP])) == {found for found in everything if found[0] in (GROUP, BROKER)}
    assert (CLIENT_METRICS, configured[CLIENT_METRICS]) in (
        (CLIENT_METRICS, name) for _, name in listed(raw, [], version=0)
    )


@pytest.mark.parametrize("kinds", [[0], [1], [99], [-1], [TOPIC, 99]])
def test_types_that_nothing_is_of_are_refused(raw: RawClient, kinds: list[int]) -> None:
    response = raw.call(ListConfigResourcesRequest(resource_types=kinds), 1)
    assert (response.error_code, response.config_resources) == (error_codes.UNSUPPORTED_VERSION, [])


# DescribeProducers


def test_the_producers_of_a_partition_are_described(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    eventually(lambda: raw.call(asked, 5).error_code == error_codes.NONE, "the first producer ids")
    given = raw.call(asked, 5)
    for first in (0, 3):
        batch = build_batch(
            [Record(timestamp=7_000 + first + n, value=b"v") for n in range(3)],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=first,
        )
        assert produce(raw, topic, batch, partition=1).error_code == error_codes.NONE
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 1])])
    idle, used = raw.call(request, 0).topics[0].partitions
    assert (idle.partition_index, idle.error_code, idle.error_message, idle.active_producers) == (0, 0, None, [])
    assert (used.partition_index, used.error_code, used.error_message) == (1, error_codes.NONE, None)
    (producer,) = used.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (given.producer_id, given.producer_epoch)
    assert (producer.last_sequence, producer.last_timestamp) == (5, 7_005)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)


def test_partitions_that_are_not_there_have_no_producers(raw: RawClient, topic: str) -> None:
    names = (topic, "nope", METADATA, *INVALID_NAMES)
    topics = [TopicRequest(name=name, partition_indexes=[9, -1]) for name in names]
    answers = raw.call(DescribeProducersRequest(topics=topics), 0).topics
    unknown, invalid = error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.INVALID_TOPIC_EXCEPTION
    expected: list[tuple[int, str | None]] = [(unknown, None), (unknown, NOT_HOSTED), (unknown, NOT_HOSTED)]
    expected += [(invalid, f"Topic name is invalid: {reason}") for reason in INVALID_NAMES.values()]
    found = [{(one.error_code, one.error_message) for one in answer.partitions} for answer in answers]
    assert [answer.name for answer in answers] == list(names)
    assert found == [{one} for one in expected]


# What needs security


@pytest.mark.parametrize("version", range(1, 4))
def test_without_an_authorizer_there_are_no_acls(raw: RawClient, version: int) -> None:
    disabled = error_codes.SECURITY_DISABLED
    described = raw.call(DescribeAclsRequest(**acl_filter()), version)
    assert (described.error_code, described.resources) == (disabled, [])
    assert described.error_message == "No Authorizer is configured on the broker"
    created = raw.call(CreateAclsRequest(creations=[acl("a"), acl("b", principal="nobody")]), version)
    refusal = AclCreationResult(error_code=disabled, error_message="No Authorizer is configured.")
    assert created.results == [refusal, refusal]
    assert raw.call(CreateAclsRequest(creations=[]), version).results == []
    deleted = raw.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter())] * 2), version).filter_results
    expected = [(disabled, "No Authorizer is configured.", [])] * 2
    assert [(result.error_code, result.error_message, result.matching_acls) for result in deleted] == expected


UNKNOWN_ELEMENTS: dict[str, Callable[[], Any]] = {
    "describe": lambda: DescribeAclsRequest(**acl_filter(resource_type_filter=0)),
    "describe a pattern": lambda: DescribeAclsRequest(**acl_filter(pattern_type_filter=0)),
    "create": lambda: CreateAclsRequest(creations=[acl("a"), acl("a", operation=0)]),
    "create a pattern": lambda: CreateAclsRequest(creations=[acl("a", resource_pattern_type=0)]),
    "delete": lambda: DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(permission_type=0))]),
}


@pytest.mark.parametrize("request_of", UNKNOWN_ELEMENTS.values(), ids=UNKNOWN_ELEMENTS)
def test_acls_with_unknown_elements_close_the_connection(raw: RawClient, request_of: Callable[[], Any]) -> None:
    raw.send(request_of(), 3)
    assert raw.is_closed()


@pytest.mark.parametrize("version", range(1, 4))
def test_a_client_without_a_login_gets_no_tokens(raw: RawClient, version: int) -> None:
    refused = error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    token = raw.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=1000), version)
    assert (token.error_code, token.token_id, token.hmac) == (refused, "", b"")
    assert (token.principal_type, token.principal_name) == ("User", "ANONYMOUS")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (-1, -1, -1)
    requester = (token.token_requester_principal_type, token.token_requester_principal_name)
    assert requester == (("User", "ANONYMOUS") if version >= 3 else ("", ""))
    if version >= 3:
        for kind, name, owner in (("User", "bob", "bob"), ("", "", "ANONYMOUS"), ("User", None, "ANONYMOUS")):
            token = raw.call(
                CreateDelegationTokenRequest(
                    owner_principal_type=kind, owner_principal_name=name, renewers=[], max_lifetime_ms=1000
                ),
                version,
            )
            assert (token.error_code, token.principal_name) == (refused, owner)
    described = raw.call(DescribeDelegationTokenRequest(owners=None), version)
    assert (described.error_code, described.tokens) == (refused, [])
    if version < 3:
        renewed = raw.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1000), version)
        expired = raw.call(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1000), version)
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (refused, -1)
        assert (expired.error_code, expired.expiry_timestamp_ms) == (refused, -1)


def test_sasl_requests_on_a_plaintext_listener_are_illegal(raw: RawClient) -> None:
    text = "SaslAuthenticate request received after successful authentication"
    for version in range(3):
        for mechanism in ("PLAIN", "nope", ""):
            answer = raw.call(SaslHandshakeRequest(mechanism=mechanism), min(version, 1))
            assert (answer.error_code, answer.mechanisms) == (error_codes.ILLEGAL_SASL_STATE, [])
        answer = raw.call(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert (answer.error_code, answer.error_message) == (error_codes.ILLEGAL_SASL_STATE, text)
        assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)


def test_scram_credentials_are_empty_at_first(raw: RawClient) -> None:
    for users in (None, []):
        response = raw.call(DescribeUserScramCredentialsRequest(users=users), 0)
        assert (response.error_code, response.error_message, response.results) == (error_codes.NONE, "", [])
    wanted = [UserName(name=name) for name in ("a", "b", "a")]
    results = raw.call(DescribeUserScramCredentialsRequest(users=wanted), 0).results
    found = {result.user: (result.error_code, result.error_message, result.credential_infos) for result in results}
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: a"
    missing = "Attempt to describe a user credential that does not exist: b"
    assert found == {
        "a": (error_codes.DUPLICATE_RESOURCE, twice, []),
        "b": (error_codes.RESOURCE_NOT_FOUND, missing, []),
    }


# DescribeClientQuotas


def quotas(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=wanted, strict=strict)


EXACT, DEFAULT, ANY = range(3)
MIXED = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
    "component."
)
REFUSED_FILTERS: list[tuple[list[tuple[str, int, str | None]], int, str]] = [
    ([("", EXACT, "a")], error_codes.INVALID_REQUEST, "Invalid empty entity type."),
    ([("odd", EXACT, "a")], error_codes.UNSUPPORTED_VERSION, "Unsupported entity type odd"),
    ([("odd", 7, "a")], error_codes.UNSUPPORTED_VERSION, "Unsupported entity type odd"),
    ([("user", 7, "a")], error_codes.INVALID_REQUEST, "Unknown match type 7"),
    ([("user", -1, "a")], error_codes.INVALID_REQUEST, "Unknown match type -1"),
    (
        [("user", EXACT, "a"), ("user", ANY, None)],
        error_codes.INVALID_REQUEST,
        "Entity type user cannot appear more than once in the filter.",
    ),
    ([("user", EXACT, "a"), ("ip", EXACT, "b")], error_codes.INVALID_REQUEST, MIXED),
    ([("ip", ANY, None), ("client-id", DEFAULT, None)], error_codes.INVALID_REQUEST, MIXED),
    (
        [("user", EXACT, None)],
        error_codes.INVALID_REQUEST,
        "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    ),
    (
        [("user", DEFAULT, "a")],
        error_codes.INVALID_REQUEST,
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
    (
        [("user", ANY, "a")],
        error_codes.INVALID_REQUEST,
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
]


@pytest.mark.parametrize("version", [0, 1])
def test_client_quotas_are_empty_at_first(raw: RawClient, version: int) -> None:
    for request in (
        quotas(("user", EXACT, "nobody-here")),
        quotas(("user", EXACT, ""), ("client-id", DEFAULT, None), strict=True),
        quotas(("ip", EXACT, "192.0.2.1")),
    ):
        response = raw.call(request, version)
        assert (response.error_code, response.error_message, response.entries) == (error_codes.NONE, "", [])
    for components, code, message in REFUSED_FILTERS:
        response = raw.call(quotas(*components), version)
        assert (response.error_code, response.error_message, response.entries) == (code, message, None)
