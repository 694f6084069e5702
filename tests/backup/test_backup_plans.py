"""The pieces that a run goes on from, and the run that a restore takes."""

from manifests import manifest, partition, piece

from kpybroker.machines.backup.manifest import GroupPosition
from kpybroker.machines.backup.planning import PartitionPlan, SourceBounds, chained, plan_partition, without_diverged
from kpybroker.machines.backup.restoring import (
    RestoredNode,
    commit_records,
    metadata_records,
    next_producer_id,
    runs_around,
)
from kpywire import uuid
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord

ONE, TWO, THREE = piece(0, 10), piece(10, 20), piece(20, 30)


def test_a_run_goes_on_where_the_last_piece_ends() -> None:
    assert plan_partition([ONE, TWO], SourceBounds(0, 25)) == PartitionPlan((ONE, TWO), 20)
    assert plan_partition([], SourceBounds(5, 25)) == PartitionPlan((), 5)


def test_pieces_below_the_log_start_are_left_out() -> None:
    assert plan_partition([ONE, TWO], SourceBounds(10, 25)) == PartitionPlan((TWO,), 20)
    assert plan_partition([ONE, TWO], SourceBounds(20, 25)) == PartitionPlan((), 20)


def test_records_that_were_deleted_before_they_were_read_are_noted() -> None:
    plan = plan_partition([ONE], SourceBounds(15, 25))
    assert plan[:2] == ((), 15)
    assert plan.note == "the source has deleted the records from offset 10 to 15 before they were read"


def test_a_source_that_ends_before_the_last_piece_is_noted() -> None:
    plan = plan_partition([ONE, TWO], SourceBounds(0, 15))
    assert plan[:2] == ((ONE,), 10)
    assert plan.note == "the source ends at offset 15, before offset 20, which the last run has seen"


def test_pieces_that_an_unclean_election_has_replaced_are_read_again() -> None:
    assert without_diverged([ONE, TWO, THREE], 20) == [ONE, TWO]
    assert without_diverged([ONE, TWO, THREE], 19) == [ONE]
    plan = plan_partition([ONE], SourceBounds(0, 25), was_diverged=True)
    assert plan[:2] == ((ONE,), 10)
    assert plan.note == "an unclean election at the source has replaced records; it is read again from offset 10"


def test_an_interrupted_run_is_gone_on_with() -> None:
    newer = piece(10, 30, "3")
    assert chained([ONE], [THREE, TWO]) == [ONE, TWO, THREE]
    assert chained([ONE], [TWO, newer]) == [ONE, newer]
    assert chained([ONE], [THREE]) == [ONE]
    assert chained([], [TWO, THREE]) == [TWO, THREE]


def test_a_time_lies_between_two_runs() -> None:
    cuts = {"a": 100, "b": 200}
    found = [runs_around(cuts, time_ms) for time_ms in (99, 100, 199, 200)]
    assert found == [(None, "a"), ("a", "b"), ("a", "b"), ("b", None)]
    assert runs_around({}, 5) == (None, None)


def test_new_producer_ids_are_above_those_of_the_backup() -> None:
    assert next_producer_id(manifest(partition(piece(0, 10, max_producer_id=4)), partition(piece(0, 9)))) == 5
    assert next_producer_id(manifest()) == 0


def test_positions_of_groups_are_not_above_the_cut() -> None:
    positions = (
        GroupPosition("orders", 0, 12, 3, "a"),
        GroupPosition("orders", 1, 4, 3, "b"),
        GroupPosition("x", 0, 1, 1, ""),
    )
    made = manifest(partition(piece(0, 10)), partition(piece(0, 10)), groups={"g": positions})
    found = {
        (each.topic, each.partition): (each.offset, each.leader_epoch, each.metadata)
        for each in commit_records(made, 7)
    }
    assert found == {("orders", 0): (10, -1, "a"), ("orders", 1): (4, 3, "b")}


def test_a_restored_node_has_all_partitions_and_leads_none_before_it_registers() -> None:
    levels = [
        FeatureLevelRecord(name="metadata.version", feature_level=27),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ]
    held = piece(0, 10, max_producer_id=41)
    made = manifest(partition(held, leader_epoch=8), partition(leader_epoch=-1), offsets_partitions=2)
    (topic,) = made.topics
    made = made._replace(topics=(topic._replace(configs={"retention.ms": "5", "min.insync.replicas": "3"}),))
    node = RestoredNode(7, b"d" * 16, b"i" * 16, b"o" * 16)
    records = list(metadata_records(made, node, levels))
    of_kind = {kind: [each for each in records if type(each) is kind] for kind in map(type, records)}
    assert of_kind[FeatureLevelRecord] == levels
    (registration,) = of_kind[RegisterBrokerRecord]
    features = [(each.name, each.min_supported_version, each.max_supported_version) for each in registration.features]
    assert features == [("metadata.version", 27, 27), ("group.version", 0, 1)]
    assert (registration.broker_id, registration.fenced, registration.log_dirs) == (7, True, [b"d" * 16])
    ids = {"orders": uuid.from_string(topic.topic_id), "__consumer_offsets": b"o" * 16}
    assert {each.name: each.topic_id for each in of_kind[TopicRecord]} == ids
    partitions = of_kind[PartitionRecord]
    assert [(each.topic_id, each.partition_id, each.leader_epoch) for each in partitions] == [
        (ids["orders"], 0, 8),
        (ids["orders"], 1, 0),
        (ids["__consumer_offsets"], 0, 0),
        (ids["__consumer_offsets"], 1, 0),
    ]
    for each in partitions:
        assert (each.replicas, each.isr, each.directories) == ([7], [7], [b"d" * 16])
        assert (each.leader, each.partition_epoch) == (-1, 0)
    configs = {(each.resource_name, each.name): each.value for each in of_kind[ConfigRecord]}
    assert configs["", "min.insync.replicas"] == "1"
    assert configs["orders", "retention.ms"] == "5"
    assert ("orders", "min.insync.replicas") not in configs
    assert configs["__consumer_offsets", "cleanup.policy"] == "compact"
    assert [each.next_producer_id for each in of_kind[ProducerIdsRecord]] == [42]
