"""Tests of the suites that are not played in ZooKeeper mode, with the reason for each. `raw_client` skips requests in
versions that are not served there."""

from collections.abc import Mapping
from typing import Final

SKIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "share groups (KIP-932) need KRaft mode": ("test_share_groups.py", "test_dead_letter_topics.py"),
    "streams groups (KIP-1071) need KRaft mode": (
        "test_streams.py::test_totals_are_exact_though_instances_and_the_broker_are_killed[streams",
    ),
    "there is no quorum in ZooKeeper mode": (
        "test_quorum_requests.py",
        "test_protocol_controller.py",
        "test_command_line_operations.py::test_people_get_a_table[target-cluster quorum]",
        "test_kafka_python_admin.py::test_the_quorum_its_producers_and_what_has_configs_are_described",
    ),
    "only controllers of a quorum take envelopes (KIP-590); test_zookeeper_refusals.py has the answer of brokers": (
        "test_envelope.py",
    ),
    "no feature is finalised in ZooKeeper mode, so there is no transaction.version (KIP-890)": (
        "test_transactions_levels.py",
    ),
    "no feature is finalised in ZooKeeper mode (KIP-584)": (
        "test_protocol_admin.py::test_invalid_feature_levels_are_refused",
        "test_protocol_admin.py::test_metadata_are_not_lost_by_a_downgrade",
        "test_protocol_admin.py::test_a_feature_can_be_what_it_is",
    ),
    "groups have configs in KRaft mode alone (KIP-848)": (
        "test_protocol_broker_configs.py::test_groups_are_configured_before_they_exist",
    ),
    "brokers receive metrics of clients in KRaft mode alone (KIP-714)": (
        "test_protocol_broker_configs.py::test_client_metrics_subscriptions_are_configured",
        "test_client_metrics.py",
    ),
    "ListConfigResources (KIP-1142) came with Kafka 4": (
        "test_protocol_admin.py::test_resources_with_configs_are_listed",
    ),
    "DescribeTopicPartitions (KIP-966) needs KRaft mode": (
        "test_kafka_python_admin.py::test_partitions_are_described_page_by_page",
    ),
    "the next group protocol (KIP-848) needs KRaft mode": (
        "test_consumer_groups_live.py",
        "test_groups_java.py::test_java_consumers_come_and_go_and_every_record_is_read_once[consumer-protocol]",
        "test_groups_under_load.py::test_a_restarted_static_member_keeps_its_partitions_without_a_rebalance[Next",
        "test_groups_under_load.py::test_members_come_and_go_and_every_record_is_read_once[confluent-consumer-protocol",
    ),
    "the only broker of a cluster in ZooKeeper mode leads again in the same epoch": (
        "test_protocol_offsets.py::test_leader_epochs_outlive_a_restart_and_fence_what_is_older",
    ),
    "Apache Kafka 3.9 in ZooKeeper mode begins what it has no time for (docs/zookeeper.md)": (
        "test_protocol_topics.py::test_a_request_without_time_is_not_begun",
    ),
    "starts clusters of its own, whatever the target": (
        "test_zookeeper_controller.py",
        "test_zookeeper_mode.py",
        "test_failover.py",
        "test_replacement.py",
    ),
}
"""By the reason: files, or tests as ``file::test``, also by their beginnings."""


def reason(node_id: str, skipped: Mapping[str, tuple[str, ...]] = SKIPPED) -> str | None:
    """Why the test of this id is not played; None if it is."""
    file, _, test = node_id.partition("::")
    name = f"{file.rpartition('/')[2]}::{test}"
    return next((why for why, beginnings in skipped.items() if name.startswith(beginnings)), None)
