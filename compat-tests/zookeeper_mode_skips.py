"""Tests of the suites that are not played in ZooKeeper mode, with the reason for each. `raw_client` skips requests in
versions that are not served there."""

from collections.abc import Mapping
from typing import Final

SKIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "share groups need KRaft mode": ("test_share_groups.py",),
    "there is no quorum in ZooKeeper mode": ("test_quorum_requests.py", "test_protocol_controller.py"),
    "only controllers of a quorum take envelopes; test_zookeeper_refusals.py has what brokers do with them": (
        "test_envelope.py",
    ),
    "no feature is finalised in ZooKeeper mode": (
        "test_protocol_admin.py::test_what_a_feature_cannot_be_is_refused",
        "test_protocol_admin.py::test_metadata_are_not_lost_by_a_downgrade",
        "test_protocol_admin.py::test_a_feature_can_be_what_it_is",
        "test_transactions_levels.py",
    ),
    "groups and client metrics have configs in KRaft mode alone": (
        "test_protocol_broker_configs.py::test_groups_are_configured_before_they_exist",
        "test_protocol_broker_configs.py::test_client_metrics_subscriptions_are_configured",
        "test_protocol_admin.py::test_what_has_configs_is_listed",
        "test_client_metrics.py",
    ),
    "the versions were recorded in KRaft mode": (
        "test_protocol_versions.py::test_the_advertised_versions_are_kafkas",
        "test_java_tools.py::test_what_the_broker_serves_is_listed",
        "test_kafka_python_admin.py::test_what_the_broker_serves_can_be_asked",
        "test_version_guesses.py",
    ),
    "the next group protocol (KIP-848) needs KRaft mode": (
        "test_consumer_groups_live.py",
        "test_groups_java.py::test_java_consumers_come_and_go_and_every_record_is_read_once[consumer-protocol]",
        "test_groups_under_load.py::test_a_static_member_that_restarts_keeps_its_partitions_and_disturbs_nobody[Next",
        "test_groups_under_load.py::test_members_come_and_go_and_every_record_is_read_once[confluent-consumer-protocol",
    ),
    "versions of Kafka 4 are asked for, which 3.9 does not serve": (
        "test_java_commands.py::test_the_replica_verification_tool_finds_every_replica_alike",
        "test_consoles.py",
        "test_groups_java.py::test_groups_are_listed_and_described",
        "test_kafka_python_admin.py::test_partitions_are_described_page_by_page",
        "test_kafka_python_admin.py::test_the_quorum_its_producers_and_what_has_configs_are_described",
        "test_protocol_offsets.py::test_an_empty_log_begins_and_ends_at_zero",
    ),
    "there is no metadata.version, no quorum and no topic of share groups": (
        "test_command_line_operations.py::test_people_get_a_table[target-cluster quorum]",
        "test_command_line_operations.py::test_the_cluster_is_described[target]",
    ),
    "the only broker leads again in the same epoch, and knows its partitions only after the controller has sent them": (
        "test_protocol_offsets.py::test_leader_epochs_outlive_a_restart_and_fence_what_is_older",
        "test_protocol_produce.py::test_duplicates_are_known_after_a_restart",
        "test_retention_clients.py::test_segments_go_by_size_by_time_and_by_their_policy_as_it_is_set_now",
    ),
    "Apache Kafka 3.9 in ZooKeeper mode answers otherwise than KRaft, too": (
        "test_protocol_admin.py::test_partitions_with_their_preferred_leader_need_no_election",
        "test_confluent_admin.py::test_partitions_with_their_preferred_leader_need_no_election",
        "test_protocol_admin.py::test_no_partition_is_moving",
        "test_protocol_admin.py::test_of_all_partitions_only_elected_ones_are_listed",
        "test_protocol_admin.py::test_an_election_without_time_or_of_an_unknown_type_is_refused",
        "test_protocol_topics.py::test_a_request_without_time_is_not_begun",
        "test_protocol_log_dirs.py::test_only_brokers_that_are_there_get_partitions",
    ),
    "a deleted name is free only when all replicas are gone": (
        "test_protocol_metadata.py::test_an_id_belongs_to_one_life_of_a_name",
        "test_kafka_python_admin.py::test_a_topic_created_again_is_another_topic",
        "test_protocol_group_offsets.py::test_a_deleted_topic_takes_its_offsets_with_it",
    ),
    "starts clusters of its own, whatever the target": (
        "test_zookeeper_controller.py",
        "test_zookeeper_mode.py",
        "test_failover.py",
        "test_replacement.py",
    ),
}
"""By the reason: files, or tests as ``file::test``, also by their beginnings."""


def reason(node_id: str) -> str | None:
    """Why the test of this id is not played; None if it is."""
    file, _, test = node_id.partition("::")
    name = f"{file.rpartition('/')[2]}::{test}"
    return next((why for why, beginnings in SKIPPED.items() if name.startswith(beginnings)), None)
