"""A delta names all that differs between two states of an image, whether records or a snapshot changed it."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from metadata_histories import apply_all, histories

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import ZK_MIGRATION, InvalidMetadata, MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpybroker.machines.metadata.replacement import KEPT

Change = tuple[Any, ...]


def contents(image: MetadataImage) -> dict[Change, Any]:
    """All that an image holds, by what a delta has to name when it changes."""
    held: dict[Change, Any] = {
        ("feature", "metadata.version"): image.metadata_version,
        ("feature", ZK_MIGRATION): image.zk_migration_state,
        ("producer ids",): image.next_producer_id,
    }
    for topic in image.topics_by_id.values():
        held["topic", topic.id] = topic.name
        held |= {("partition", topic.id, index): each for index, each in topic.partitions.items()}
    held |= {("broker", each): broker for each, broker in image.brokers.items()}
    held |= {("controller", each): controller for each, controller in image.controllers.items()}
    held |= {("feature", name): level for name, level in image.features.items()}
    for resource, configs in image.configs.items():
        held |= {("config", resource, name): value for name, value in configs.items()}
    for kind in KEPT:
        held |= {("kept", kind, key): value for key, value in getattr(image, kind).items()}
    return held


def named(delta: MetadataDelta) -> set[Change]:
    """All that a delta names. The partitions of deleted topics go without a word."""
    return {
        *(("topic", each) for each in (*delta.created_topics, *delta.deleted_topics)),
        *(("partition", topic, index) for topic, changed in delta.partitions.items() for index in changed),
        *(("broker", each) for each in delta.brokers),
        *(("controller", each) for each in delta.controllers),
        *(("feature", each) for each in delta.features),
        *((("producer ids",),) if delta.producer_ids else ()),
        *(("config", resource, name) for resource, names in delta.configs.items() for name in names),
        *(("kept", kind, key) for kind, keys in delta.kept.items() for key in keys),
    }


def differences(before: dict[Change, Any], after: dict[Change, Any]) -> set[Change]:
    """All that changed and has to be named."""
    gone = {each[1] for each in before if each[0] == "topic" and each not in after}
    changed = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
    return {each for each in changed if not (each[0] == "partition" and each[1] in gone)}


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_delta_names_all_that_its_records_changed(data: st.DataObject) -> None:
    history = data.draw(histories())
    first = data.draw(st.integers(1, len(history)))
    image = apply_all(history[:first])
    before, delta = contents(image), MetadataDelta(first)
    for offset, record in enumerate(history[first:], first):
        image.apply(record, offset, delta)
    assert differences(before, contents(image)) <= named(delta)
    assert delta.is_empty is not bool(named(delta))
    for broker, known in delta.brokers.items():
        assert known == before.get(("broker", broker))
    for topic, partitions in delta.partitions.items():
        assert partitions == {index: before.get(("partition", topic, index)) for index in partitions}


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_replaced_image_reports_exactly_the_differences(data: st.DataObject) -> None:
    history = data.draw(histories())
    stale, newer = apply_all(history[: data.draw(st.integers(1, len(history)))]), apply_all(history)
    for topic_id in stale.topics_by_id.keys() & newer.topics_by_id.keys():  # no id is used again
        was, now = stale.topics_by_id[topic_id], newer.topics_by_id[topic_id]
        assume(was.name == now.name and was.partitions.keys() <= now.partitions.keys())
    before, expected = contents(stale), contents(newer)
    topics, brokers = dict(stale.topics_by_id), dict(stale.brokers)
    loader, news = MetadataLoader(stale), list[MetadataDelta]()
    loader.subscribe(lambda _image, delta: news.append(delta))
    loader.replace(newer)
    loader.publish(500)
    (delta,) = news
    assert contents(stale) == expected
    assert named(delta) == differences(before, expected)
    assert (delta.from_snapshot, delta.next_offset) == (True, 500)
    assert all(stale.topics_by_id[each] is topic for each, topic in topics.items() if each in stale.topics_by_id)
    assert {each: topics[each] for each in delta.deleted_topics} == delta.deleted_topics
    assert delta.removed_topics == {each: topic.name for each, topic in delta.deleted_topics.items()}
    assert delta.brokers == {each: brokers.get(each) for each in delta.brokers}
    assert [*stale.topics.values()] == [*stale.topics_by_id.values()]


@settings(deadline=None, max_examples=20)
@given(histories(), st.data())
def test_a_delta_of_some_partitions_has_all_other_changes(history: list[Any], data: st.DataObject) -> None:
    image, delta = MetadataImage("cluster"), MetadataDelta(7, from_snapshot=True)
    for offset, record in enumerate(history):
        image.apply(record, offset, delta)
    delta.next_offset = 90
    all_partitions = [(topic, index) for topic, changed in delta.partitions.items() for index in changed]
    kept = {each for each in all_partitions if data.draw(st.booleans())}
    part = delta.with_partitions(kept)
    assert named(part) == {each for each in named(delta) if each[0] != "partition" or each[1:] in kept}
    assert {topic: set(changed) for topic, changed in part.partitions.items()} == {
        topic: {index for at, index in kept if at == topic} for topic in {topic for topic, _ in kept}
    }
    for name in ("first_offset", "next_offset", "from_snapshot", "removed_topics", "deleted_topics", "brokers"):
        assert getattr(part, name) == getattr(delta, name), name


@settings(deadline=None, max_examples=20)
@given(histories(), st.data())
def test_a_record_that_is_refused_leaves_the_image_as_it_was(history: list[Any], data: st.DataObject) -> None:
    image = apply_all(history)
    before = apply_all(history).state()
    record = data.draw(st.sampled_from(data.draw(histories())))
    try:
        image.apply(record, len(history), MetadataDelta())
    except InvalidMetadata:
        assert image.state() == before
        assert image.next_offset == len(history)
