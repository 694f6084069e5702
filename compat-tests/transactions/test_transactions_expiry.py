"""Brokers forget the state of producers in partitions, and transactional ids, each after its own time."""

from conftest import StartBroker
from kpywire import error_codes
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.raw_transactions import ADDING, Transactional, find_coordinator, stable_end
from support.waiting import eventually


def producers_of(raw: RawClient, topic: str) -> set[int]:
    """Whom partition 0 remembers."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    (partition,) = raw.call(request, 0).topics[0].partitions
    assert partition.error_code == error_codes.NONE
    return {each.producer_id for each in partition.active_producers}


def begun(raw: RawClient, transactional_id: str, topic: str) -> Transactional:
    """A producer with a transaction that is open in the topic."""
    producer = Transactional(raw, transactional_id)
    find_coordinator(raw, transactional_id)
    assert producer.init().error_code == error_codes.NONE
    assert producer.produce(topic, b"a", version=ADDING).error_code == error_codes.NONE
    return producer


def test_a_partition_forgets_producers_that_write_no_more_but_no_open_transaction(start_broker: StartBroker) -> None:
    broker = start_broker(producer_id_expiration_ms="1500", producer_id_expiration_check_interval_ms="100")
    with connect(broker.bootstrap_servers) as raw:
        create(raw, "orders", 1)
        done, still_open = begun(raw, "done", "orders"), begun(raw, "open", "orders")
        assert producers_of(raw, "orders") == {done.producer_id, still_open.producer_id}
        assert done.end(True, 5).error_code == error_codes.NONE
        eventually(lambda: producers_of(raw, "orders") == {still_open.producer_id}, "only the open one")
        assert still_open.end(True, 5).error_code == error_codes.NONE
        eventually(lambda: producers_of(raw, "orders") == set(), "nobody")
        assert stable_end(raw, "orders") == 4
        forgotten = done.produce("orders", b"b", version=ADDING, sequence=7)
        assert forgotten.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert done.produce("orders", b"b", version=ADDING).error_code == error_codes.NONE


def test_a_coordinator_expires_unused_ids_but_no_open_transaction(start_broker: StartBroker) -> None:
    broker = start_broker(
        transactional_id_expiration_ms="1500", transaction_remove_expired_transaction_cleanup_interval_ms="100"
    )
    with connect(broker.bootstrap_servers) as raw:
        create(raw, "orders", 1)
        done, still_open = begun(raw, "done", "orders"), begun(raw, "open", "orders")
        assert done.end(True, 5).error_code == error_codes.NONE
        gone = error_codes.TRANSACTIONAL_ID_NOT_FOUND
        eventually(lambda: done.describe().error_code == gone, "that it is forgotten")
        assert still_open.describe().transaction_state == "Ongoing"
        mapping = done.end(False, 5).error_code
        assert mapping == error_codes.INVALID_PRODUCER_ID_MAPPING
        before = done.producer_id
        assert done.init().error_code == error_codes.NONE
        assert (done.producer_id != before, done.epoch) == (True, 0)
    broker.restart()
    with connect(broker.bootstrap_servers) as raw:
        find_coordinator(raw, "done")
        still_open.raw = raw
        eventually(lambda: still_open.describe().transaction_state == "Ongoing", "the open one")
