"""The notifications of subscribers of the committed metadata, and their moments."""

from typing import Any

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.no_op_record import NoOpRecord
from kpywire.metadata_records.topic_record import TopicRecord


def loader_and_news() -> tuple[MetadataLoader, list[MetadataDelta]]:
    loader = MetadataLoader(MetadataImage("cluster"))
    news: list[MetadataDelta] = []
    loader.subscribe(lambda _image, delta: news.append(delta))
    return loader, news


def topic(name: str) -> Any:
    return TopicRecord(name=name, topic_id=name.encode().rjust(16))


def test_batches_loaded_together_are_one_delta() -> None:
    loader, news = loader_and_news()
    loader.load([topic("a")], 3, epoch=1)
    loader.load([topic("b")], 4, epoch=2)
    assert news == []
    loader.publish(6)
    (delta,) = news
    assert [created.name for created in delta.created_topics.values()] == ["a", "b"]
    assert (delta.next_offset, loader.image.next_offset, loader.image.epoch) == (6, 6, 2)


def test_each_publication_begins_a_new_delta() -> None:
    loader, news = loader_and_news()
    loader.load([topic("a")], 0, epoch=1)
    loader.publish(1)
    loader.load([NoOpRecord()], 1, epoch=1)
    loader.publish(2)
    assert [delta.is_empty for delta in news] == [False, True]
    assert (news[1].first_offset, news[1].next_offset) == (1, 2)


def test_an_open_transaction_is_nobodys_business() -> None:
    loader, news = loader_and_news()
    loader.load([BeginTransactionRecord(name=None), topic("a")], 0, epoch=1)
    loader.publish(2)
    assert news == []
    loader.load([EndTransactionRecord()], 2, epoch=1)
    loader.publish(3)
    assert [next(iter(delta.created_topics.values())).name for delta in news] == ["a"]


def test_a_snapshot_stands_for_all_offsets_below_it() -> None:
    loader, news = loader_and_news()
    loader.load_snapshot([topic("a")], 100, epoch=7)
    loader.load([topic("b")], 100, epoch=8)
    loader.publish(101)
    assert news[0].from_snapshot
    assert len(news[0].created_topics) == 2
    assert (loader.image.next_offset, loader.image.epoch) == (101, 8)


def test_subscribers_are_called_in_subscription_order() -> None:
    loader = MetadataLoader(MetadataImage("cluster"))
    order: list[str] = []
    for name in "abc":
        loader.subscribe(lambda _image, _delta, name=name: order.append(name))  # type: ignore[misc]
    loader.publish(1)
    assert order == ["a", "b", "c"]
