"""Kafka's APIs: keys, names, versions, and the classes of their messages, imported when asked for.

The versions are those that Apache Kafka serves by default, without unstable ones; a broker may serve fewer.
Written by `kpywire.generator`.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLED_SHUTDOWN: Final = 7
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
CREATE_DELEGATION_TOKEN: Final = 38
RENEW_DELEGATION_TOKEN: Final = 39
EXPIRE_DELEGATION_TOKEN: Final = 40
DESCRIBE_DELEGATION_TOKEN: Final = 41
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLIENT_QUOTAS: Final = 48
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
VOTE: Final = 52
BEGIN_QUORUM_EPOCH: Final = 53
END_QUORUM_EPOCH: Final = 54
DESCRIBE_QUORUM: Final = 55
ALTER_PARTITION: Final = 56
UPDATE_FEATURES: Final = 57
ENVELOPE: Final = 58
FETCH_SNAPSHOT: Final = 59
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
BROKER_REGISTRATION: Final = 62
BROKER_HEARTBEAT: Final = 63
UNREGISTER_BROKER: Final = 64
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
ALLOCATE_PRODUCER_IDS: Final = 67
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
CONTROLLER_REGISTRATION: Final = 70
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
ASSIGN_REPLICAS_TO_DIRS: Final = 73
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_GROUP_DESCRIBE: Final = 77
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
ADD_RAFT_VOTER: Final = 80
REMOVE_RAFT_VOTER: Final = 81
UPDATE_RAFT_VOTER: Final = 82
INITIALIZE_SHARE_GROUP_STATE: Final = 83
READ_SHARE_GROUP_STATE: Final = 84
WRITE_SHARE_GROUP_STATE: Final = 85
DELETE_SHARE_GROUP_STATE: Final = 86
READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
STREAMS_GROUP_HEARTBEAT: Final = 88
STREAMS_GROUP_DESCRIBE: Final = 89
DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
ALTER_SHARE_GROUP_OFFSETS: Final = 91
DELETE_SHARE_GROUP_OFFSETS: Final = 92
STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Final = 93
UNREGISTER_CONTROLLER: Final = 94

PRODUCE_ADVERTISED_MIN_VERSION: Final = 0
"""ApiVersions says so for the sake of old librdkafka; requests below 3 are refused."""
NEVER_FLEXIBLE: Final = 0x7FFF


class ApiKey(NamedTuple):
    """One API. From ``flexible_version`` on, its messages and their headers have tagged fields."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_version: int
    module: str
    listeners: tuple[str, ...]


_BROKER = ("broker",)
_CONTROLLER = ("controller",)
_BROKER_AND_CONTROLLER = ("broker", "controller")
_ZK_BROKER = ("zkBroker",)  # brokers in ZooKeeper mode alone, which Kafka 4.0 removed

API_KEYS: dict[int, ApiKey] = {
    api[0]: ApiKey(*api)
    for api in (
        (0, "Produce", 3, 13, 9, "produce", _BROKER),
        (1, "Fetch", 4, 18, 12, "fetch", _BROKER_AND_CONTROLLER),
        (2, "ListOffsets", 1, 11, 6, "list_offsets", _BROKER),
        (3, "Metadata", 0, 13, 9, "metadata", _BROKER),
        (4, "LeaderAndIsr", 0, 7, 4, "leader_and_isr", _ZK_BROKER),
        (5, "StopReplica", 0, 4, 2, "stop_replica", _ZK_BROKER),
        (6, "UpdateMetadata", 0, 8, 6, "update_metadata", _ZK_BROKER),
        (7, "ControlledShutdown", 0, 3, 3, "controlled_shutdown", _ZK_BROKER),
        (8, "OffsetCommit", 2, 10, 8, "offset_commit", _BROKER),
        (9, "OffsetFetch", 1, 10, 6, "offset_fetch", _BROKER),
        (10, "FindCoordinator", 0, 6, 3, "find_coordinator", _BROKER),
        (11, "JoinGroup", 0, 9, 6, "join_group", _BROKER),
        (12, "Heartbeat", 0, 4, 4, "heartbeat", _BROKER),
        (13, "LeaveGroup", 0, 5, 4, "leave_group", _BROKER),
        (14, "SyncGroup", 0, 5, 4, "sync_group", _BROKER),
        (15, "DescribeGroups", 0, 6, 5, "describe_groups", _BROKER),
        (16, "ListGroups", 0, 5, 3, "list_groups", _BROKER),
        (17, "SaslHandshake", 0, 1, NEVER_FLEXIBLE, "sasl_handshake", _BROKER_AND_CONTROLLER),
        (18, "ApiVersions", 0, 5, 3, "api_versions", _BROKER_AND_CONTROLLER),
        (19, "CreateTopics", 2, 7, 5, "create_topics", _BROKER_AND_CONTROLLER),
        (20, "DeleteTopics", 1, 6, 4, "delete_topics", _BROKER_AND_CONTROLLER),
        (21, "DeleteRecords", 0, 2, 2, "delete_records", _BROKER),
        (22, "InitProducerId", 0, 5, 2, "init_producer_id", _BROKER),
        (23, "OffsetForLeaderEpoch", 2, 4, 4, "offset_for_leader_epoch", _BROKER),
        (24, "AddPartitionsToTxn", 0, 5, 3, "add_partitions_to_txn", _BROKER),
        (25, "AddOffsetsToTxn", 0, 4, 3, "add_offsets_to_txn", _BROKER),
        (26, "EndTxn", 0, 5, 3, "end_txn", _BROKER),
        (27, "WriteTxnMarkers", 1, 2, 1, "write_txn_markers", _BROKER),
        (28, "TxnOffsetCommit", 0, 6, 3, "txn_offset_commit", _BROKER),
        (29, "DescribeAcls", 1, 3, 2, "describe_acls", _BROKER_AND_CONTROLLER),
        (30, "CreateAcls", 1, 3, 2, "create_acls", _BROKER_AND_CONTROLLER),
        (31, "DeleteAcls", 1, 3, 2, "delete_acls", _BROKER_AND_CONTROLLER),
        (32, "DescribeConfigs", 1, 4, 4, "describe_configs", _BROKER_AND_CONTROLLER),
        (33, "AlterConfigs", 0, 2, 2, "alter_configs", _BROKER_AND_CONTROLLER),
        (34, "AlterReplicaLogDirs", 1, 2, 2, "alter_replica_log_dirs", _BROKER),
        (35, "DescribeLogDirs", 1, 5, 2, "describe_log_dirs", _BROKER),
        (36, "SaslAuthenticate", 0, 2, 2, "sasl_authenticate", _BROKER_AND_CONTROLLER),
        (37, "CreatePartitions", 0, 3, 2, "create_partitions", _BROKER_AND_CONTROLLER),
        (38, "CreateDelegationToken", 1, 3, 2, "create_delegation_token", _BROKER_AND_CONTROLLER),
        (39, "RenewDelegationToken", 1, 2, 2, "renew_delegation_token", _BROKER_AND_CONTROLLER),
        (40, "ExpireDelegationToken", 1, 2, 2, "expire_delegation_token", _BROKER_AND_CONTROLLER),
        (41, "DescribeDelegationToken", 1, 3, 2, "describe_delegation_token", _BROKER_AND_CONTROLLER),
        (42, "DeleteGroups", 0, 3, 2, "delete_groups", _BROKER),
        (43, "ElectLeaders", 0, 2, 2, "elect_leaders", _BROKER_AND_CONTROLLER),
        (44, "IncrementalAlterConfigs", 0, 1, 1, "incremental_alter_configs", _BROKER_AND_CONTROLLER),
        (45, "AlterPartitionReassignments", 0, 1, 0, "alter_partition_reassignments", _BROKER_AND_CONTROLLER),
        (46, "ListPartitionReassignments", 0, 0, 0, "list_partition_reassignments", _BROKER_AND_CONTROLLER),
        (47, "OffsetDelete", 0, 0, NEVER_FLEXIBLE, "offset_delete", _BROKER),
        (48, "DescribeClientQuotas", 0, 1, 1, "describe_client_quotas", _BROKER),
        (49, "AlterClientQuotas", 0, 1, 1, "alter_client_quotas", _BROKER_AND_CONTROLLER),
        (50, "DescribeUserScramCredentials", 0, 0, 0, "describe_user_scram_credentials", _BROKER_AND_CONTROLLER),
        (51, "AlterUserScramCredentials", 0, 0, 0, "alter_user_scram_credentials", _BROKER_AND_CONTROLLER),
        (52, "Vote", 0, 2, 0, "vote", _CONTROLLER),
        (53, "BeginQuorumEpoch", 0, 1, 1, "begin_quorum_epoch", _CONTROLLER),
        (54, "EndQuorumEpoch", 0, 1, 1, "end_quorum_epoch", _CONTROLLER),
        (55, "DescribeQuorum", 0, 2, 0, "describe_quorum", _BROKER_AND_CONTROLLER),
        (56, "AlterPartition", 2, 3, 0, "alter_partition", _CONTROLLER),
        (57, "UpdateFeatures", 0, 2, 0, "update_features", _BROKER_AND_CONTROLLER),
        (58, "Envelope", 0, 0, 0, "envelope", _CONTROLLER),
        (59, "FetchSnapshot", 0, 1, 0, "fetch_snapshot", _CONTROLLER),
        (60, "DescribeCluster", 0, 2, 0, "describe_cluster", _BROKER_AND_CONTROLLER),
        (61, "DescribeProducers", 0, 0, 0, "describe_producers", _BROKER),
        (62, "BrokerRegistration", 0, 4, 0, "broker_registration", _CONTROLLER),
        (63, "BrokerHeartbeat", 0, 2, 0, "broker_heartbeat", _CONTROLLER),
        (64, "UnregisterBroker", 0, 0, 0, "unregister_broker", _BROKER_AND_CONTROLLER),
        (65, "DescribeTransactions", 0, 0, 0, "describe_transactions", _BROKER),
        (66, "ListTransactions", 0, 2, 0, "list_transactions", _BROKER),
        (67, "AllocateProducerIds", 0, 0, 0, "allocate_producer_ids", _CONTROLLER),
        (68, "ConsumerGroupHeartbeat", 0, 1, 0, "consumer_group_heartbeat", _BROKER),
        (69, "ConsumerGroupDescribe", 0, 1, 0, "consumer_group_describe", _BROKER),
        (70, "ControllerRegistration", 0, 0, 0, "controller_registration", _CONTROLLER),
        (71, "GetTelemetrySubscriptions", 0, 0, 0, "get_telemetry_subscriptions", _BROKER),
        (72, "PushTelemetry", 0, 0, 0, "push_telemetry", _BROKER),
        (73, "AssignReplicasToDirs", 0, 0, 0, "assign_replicas_to_dirs", _CONTROLLER),
        (74, "ListConfigResources", 0, 1, 0, "list_config_resources", _BROKER),
        (75, "DescribeTopicPartitions", 0, 0, 0, "describe_topic_partitions", _BROKER),
        (76, "ShareGroupHeartbeat", 1, 1, 0, "share_group_heartbeat", _BROKER),
        (77, "ShareGroupDescribe", 1, 1, 0, "share_group_describe", _BROKER),
        (78, "ShareFetch", 1, 2, 0, "share_fetch", _BROKER),
        (79, "ShareAcknowledge", 1, 2, 0, "share_acknowledge", _BROKER),
        (80, "AddRaftVoter", 0, 1, 0, "add_raft_voter", _BROKER_AND_CONTROLLER),
        (81, "RemoveRaftVoter", 0, 0, 0, "remove_raft_voter", _BROKER_AND_CONTROLLER),
        (82, "UpdateRaftVoter", 0, 0, 0, "update_raft_voter", _CONTROLLER),
        (83, "InitializeShareGroupState", 0, 0, 0, "initialize_share_group_state", _BROKER),
        (84, "ReadShareGroupState", 0, 0, 0, "read_share_group_state", _BROKER),
        (85, "WriteShareGroupState", 0, 1, 0, "write_share_group_state", _BROKER),
        (86, "DeleteShareGroupState", 0, 0, 0, "delete_share_group_state", _BROKER),
        (87, "ReadShareGroupStateSummary", 0, 1, 0, "read_share_group_state_summary", _BROKER),
        (88, "StreamsGroupHeartbeat", 0, 1, 0, "streams_group_heartbeat", _BROKER),
        (89, "StreamsGroupDescribe", 0, 1, 0, "streams_group_describe", _BROKER),
        (90, "DescribeShareGroupOffsets", 0, 1, 0, "describe_share_group_offsets", _BROKER),
        (91, "AlterShareGroupOffsets", 0, 0, 0, "alter_share_group_offsets", _BROKER),
        (92, "DeleteShareGroupOffsets", 0, 0, 0, "delete_share_group_offsets", _BROKER),
        (93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0, "streams_group_topology_description_update", _BROKER),
        (94, "UnregisterController", 0, 0, 0, "unregister_controller", _BROKER_AND_CONTROLLER),
    )
}


def request_class(key: int) -> Any:
    """The class of an API's requests. KeyError if Kafka has no such API (any more)."""
    return _message_class(key, "Request")


def response_class(key: int) -> Any:
    """The class of an API's responses. KeyError if Kafka has no such API (any more)."""
    return _message_class(key, "Response")


def _message_class(key: int, direction: str) -> Any:
    api = API_KEYS[key]
    return getattr(import_module(f"kpywire.messages.{api.module}"), api.name + direction)
