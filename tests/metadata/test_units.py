"""Applying a batch unit by unit is applying its records; a unit is never half of a topic."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.metadata.units import units_of
from kpybroker.runtime.calls.steps import at_once
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord

LEVEL = 30


@st.composite
def batches(draw):
    """Batches as the controller writes them: topics that come, grow and go, and configs."""
    sizes: dict[str, int] = {}
    batch = []
    for number in range(draw(st.integers(0, 12))):
        match draw(st.sampled_from(["create", "grow", "configure", "remove"])) if sizes else "create":
            case "create":
                name = f"t{number}"
                sizes[name] = draw(st.integers(1, 40))
                batch.append(TopicRecord(name=name, topic_id=topic_id(name)))
                batch += configs(name, draw(st.integers(0, 2)))
                batch += partitions(name, 0, sizes[name])
            case "grow":
                name, more = draw(st.sampled_from(sorted(sizes))), draw(st.integers(1, 40))
                batch += partitions(name, sizes[name], more)
                sizes[name] += more
            case "configure":
                batch += configs(draw(st.sampled_from(sorted(sizes))), draw(st.integers(1, 3)))
            case "remove":
                name = draw(st.sampled_from(sorted(sizes)))
                del sizes[name]
                batch.append(RemoveTopicRecord(topic_id=topic_id(name)))
    if draw(st.booleans()):
        batch = [BeginTransactionRecord(name="x"), *batch, EndTransactionRecord()]
    return batch


def topic_id(name):
    return name.encode().rjust(16, b"-")


def configs(name, count):
    return [ConfigRecord(resource_type=2, resource_name=name, name=f"c{n}", value="v") for n in range(count)]


def partitions(name, first, count):
    return [
        Partition([1], [1], 1, directories=[b"d" * 16]).to_record(topic_id(name), first + n, LEVEL, elr_enabled=False)
        for n in range(count)
    ]


def image():
    made = MetadataImage("units")
    made.apply(FeatureLevelRecord(name="metadata.version", feature_level=LEVEL), 0, MetadataDelta())
    return made


@given(batches())
def test_units_do_what_their_records_do(records):
    expected, expected_delta = image(), MetadataDelta()
    for offset, record in enumerate(records, 1):
        expected.apply(record, offset, expected_delta)
    found, delta, offset = image(), MetadataDelta(), 1
    for unit in at_once(units_of(records)):
        found.apply_unit(unit, offset, delta)
        offset += unit.records
        assert found.next_offset == offset
    assert found.state() == expected.state()
    assert offset == 1 + len(records)
    for name in ("created_topics", "deleted_topics", "partitions", "configs"):
        assert getattr(delta, name) == getattr(expected_delta, name), name


@given(batches())
def test_a_topic_comes_in_one_unit(records):
    units = at_once(units_of(records))
    for unit in units:
        assert [type(part) for part in unit.parts].count(TopicRecord) <= 1
        assert TopicRecord not in [type(part) for part in unit.parts[1:]]
    began = [unit for unit in units if unit.parts and type(unit.parts[0]) is TopicRecord]
    assert all(unit.records > 1 for unit in began), "its partitions come with it"
