"""Tests of the suites that are not played in ZooKeeper mode, with the reason for each. `raw_client` skips requests in
versions that are not served there."""

from collections.abc import Mapping
from typing import Final

SKIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "share groups need KRaft mode": ("test_share_groups.py",),
    "there is no quorum in ZooKeeper mode": ("test_quorum_requests.py", "test_protocol_controller.py"),
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
        "test_version_guesses.py",
    ),
    "Apache Kafka 3.9 in ZooKeeper mode answers otherwise than KRaft, too": (
        "test_protocol_admin.py::test_partitions_with_their_preferred_leader_need_no_election",
        "test_confluent_admin.py::test_partitions_with_their_preferred_leader_need_no_election",
        "test_protocol_admin.py::test_no_partition_is_moving",
        "test_protocol_admin.py::test_of_all_partitions_only_elected_ones_are_listed",
        "test_protocol_admin.py::test_an_election_without_time_or_of_an_unknown_type_is_refused",
        "test_protocol_topics.py::test_a_request_without_time_is_not_begun",
    ),
    "a deleted name is free only when all replicas are gone": (
        "test_protocol_metadata.py::test_an_id_belongs_to_one_life_of_a_name",
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
