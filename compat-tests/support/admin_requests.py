"""An ordinary request of each administrative API, for the suites that send one of everything."""

from typing import Any

from kpywire import api
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.list_config_resources import ListConfigResourcesRequest
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.uuid import ZERO_UUID
from support.quorum_requests import addition_of, removal_of
from support.quota_requests import alteration, entry

TOPIC_TYPE, LITERAL, ALL = 2, 3, 2
ANY = 1
UNKNOWN_ID = 2_000_000_000


def acl_filter(**fields: Any) -> dict[str, Any]:
    """The fields of a filter that matches every ACL, but for those given."""
    wide = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    return {**wide, "resource_name_filter": None, "principal_filter": None, "host_filter": None, **fields}


def acl(topic: str, **fields: Any) -> AclCreation:
    """An ACL that lets somebody do everything with a topic, but for the fields given."""
    whole = {"resource_type": TOPIC_TYPE, "resource_pattern_type": LITERAL, "operation": ALL, "permission_type": 3}
    return AclCreation(**{**whole, "resource_name": topic, "principal": "User:somebody", "host": "*", **fields})


def quorum_of(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=name,
                partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
    )


def plausible_admin(version: int, topic: str) -> dict[int, Any]:
    """By API key; nothing that these ask for changes a broker."""
    by_type = version >= 1
    return {
        api.ADD_RAFT_VOTER: addition_of(-1),
        api.REMOVE_RAFT_VOTER: removal_of(-1),
        api.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="somebody", mechanism=1)], upsertions=[]
        ),
        api.ALTER_CLIENT_QUOTAS: alteration(entry({"user": "somebody"}, {"producer_byte_rate": None})),
        api.CREATE_ACLS: CreateAclsRequest(creations=[acl(topic)]),
        api.CREATE_DELEGATION_TOKEN: CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type="User", principal_name="somebody")], max_lifetime_ms=1000
        ),
        api.DELETE_ACLS: DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter())]),
        api.DESCRIBE_ACLS: DescribeAclsRequest(**acl_filter()),
        api.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest(
            components=[ComponentData(entity_type="user", match_type=0, match="somebody")], strict=False
        ),
        api.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest(owners=None),
        api.DESCRIBE_PRODUCERS: DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])]),
        api.DESCRIBE_QUORUM: quorum_of(("__cluster_metadata", [0])),
        api.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest(users=[UserName(name="somebody")]),
        api.ELECT_LEADERS: ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=topic, partitions=[0])], timeout_ms=1000
        ),
        api.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=1000),
        api.GET_TELEMETRY_SUBSCRIPTIONS: GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID),
        api.PUSH_TELEMETRY: PushTelemetryRequest(client_instance_id=bytes(range(16)), metrics=b""),
        api.LIST_CONFIG_RESOURCES: ListConfigResourcesRequest(resource_types=[TOPIC_TYPE] if by_type else []),
        api.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0)])]
        ),
        api.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0])], timeout_ms=1000
        ),
        api.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=1000),
        api.SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b"\0somebody\0secret"),
        api.SASL_HANDSHAKE: SaslHandshakeRequest(mechanism="PLAIN"),
        api.UNREGISTER_BROKER: UnregisterBrokerRequest(broker_id=UNKNOWN_ID),
        api.UNREGISTER_CONTROLLER: UnregisterControllerRequest(controller_id=UNKNOWN_ID),
        api.UPDATE_FEATURES: UpdateFeaturesRequest(
            timeout_ms=1000, feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=1)]
        ),
    }
