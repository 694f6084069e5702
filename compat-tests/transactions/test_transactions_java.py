"""Transactions by Kafka's Java programs: the producer, a copier that consumes and produces, kafka-transactions.sh."""

import re
import secrets

import pytest

from conftest import NewTopic, StartBroker
from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.record import Record, build_batch
from support.java_tools import Finished, JavaTools
from support.raw_client import RawClient, connect
from support.raw_requests import now_ms, topic_named
from support.raw_transactions import (
    ADDING,
    Transactional,
    aborted_in,
    committed_values,
    fetch,
    find_coordinator,
    produce_records,
    stable_end,
    values_in,
)
from support.waiting import eventually

pytestmark = pytest.mark.java


def test_the_producer_commits_aborts_and_is_fenced(
    java_tools: JavaTools, bootstrap_servers: str, raw: RawClient, topic: str
) -> None:
    """The program: 10 transactions of 5 records, every other one aborted; then a second producer fences the first."""
    finished = java_tools.run("transactional-producer", bootstrap_servers, topic, topic)
    assert finished.exit_code == 0, finished.text
    assert "fenced: " in finished.out
    assert "FencedException" in finished.out, finished.text
    eventually(lambda: stable_end(raw, topic) == fetch(raw, topic, committed=False).high_watermark, "all ends")
    everything = fetch(raw, topic, committed=False)
    assert len(values_in(everything)) == 10 * 5 + 1
    assert len(aborted_in(fetch(raw, topic, committed=True)) or ()) == 5 + 1


def test_the_copier_copies_exactly_once(
    java_tools: JavaTools, bootstrap_servers: str, new_topic: NewTopic, raw: RawClient
) -> None:
    """Kafka's own program of its system tests: consume, produce, send offsets, with aborts at random."""
    source, sink = new_topic(), new_topic()
    numbers = [str(number).encode() for number in range(200)]
    records = build_batch([Record(timestamp=now_ms(), value=number) for number in numbers])
    assert produce_records(raw, source, records, None).error_code == error_codes.NONE
    finished = java_tools.run(
        "transactional-message-copier",
        *("--broker-list", bootstrap_servers, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", sink, "--transactional-id", sink, "--consumer-group", sink),
        *("--transaction-size", "20", "--max-messages", "200", "--enable-random-aborts"),
        timeout_s=90,
    )
    assert '"remaining":0' in finished.out, finished.text
    eventually(lambda: stable_end(raw, sink) == fetch(raw, sink, committed=False).high_watermark, "all ends")
    assert committed_values(raw, sink) == numbers


def tool(java_tools: JavaTools, server: str, *arguments: str) -> Finished:
    return java_tools.run("kafka-transactions", "--bootstrap-server", server, *arguments)


def rows(finished: Finished) -> list[list[str]]:
    """A table without its head."""
    return [re.split(r"\s*\t\s*|\s{2,}", line.strip()) for line in finished.out.splitlines()[1:] if line.strip()]


def test_the_tool_describes_lists_and_terminates(
    java_tools: JavaTools, bootstrap_servers: str, raw: RawClient, topic: str
) -> None:
    producer = Transactional(raw, f"open-{secrets.token_hex(4)}")
    find_coordinator(raw, producer.id)
    producer.init()
    assert producer.produce(topic, b"a", version=ADDING).error_code == error_codes.NONE
    described = tool(java_tools, bootstrap_servers, "describe", "--transactional-id", producer.id)
    assert {str(producer.producer_id), producer.id, "Ongoing", f"{topic}-0"} <= set(described.out.split()), described
    listed = tool(java_tools, bootstrap_servers, "list")
    assert [producer.id, "Ongoing"] in [[row[0], row[-1]] for row in rows(listed)], listed.text
    producers = tool(java_tools, bootstrap_servers, "describe-producers", "--topic", topic, "--partition", "0")
    assert str(producer.producer_id) in producers.out
    hanging = tool(java_tools, bootstrap_servers, "find-hanging", "--topic", topic, "--partition", "0")
    assert rows(hanging) == []
    ended = tool(java_tools, bootstrap_servers, "forceTerminateTransaction", "--transactionalId", producer.id)
    assert ended.exit_code == 0, ended.text
    eventually(lambda: stable_end(raw, topic) == 2, "the marker")
    assert aborted_in(fetch(raw, topic, committed=True)) == [(producer.producer_id, 0)]


def test_the_tool_finds_and_aborts_what_hangs(java_tools: JavaTools, start_broker: StartBroker) -> None:
    """A transaction that its coordinator knows nothing of, as bugs of old clients left them behind."""
    broker = start_broker(transaction_partition_verification_enable="false", transaction_max_timeout_ms="60000")
    with connect(broker.bootstrap_servers) as raw:
        raw.call(CreateTopicsRequest(topics=[topic_named("stuck")], timeout_ms=10_000, validate_only=False), 7)
        eventually(lambda: fetch(raw, "stuck", committed=False).error_code == 0, "the topic")
        producer = Transactional(raw, "hanging")
        find_coordinator(raw, producer.id)
        producer.init()
        assert producer.produce("stuck", b"a").error_code == error_codes.NONE
        assert stable_end(raw, "stuck") == 0
        where = ("--topic", "stuck", "--partition", "0")
        found = tool(java_tools, broker.bootstrap_servers, "find-hanging", *where, "--max-transaction-timeout", "-1")
        assert [row[:3] for row in rows(found)] == [["stuck", "0", str(producer.producer_id)]], found.text
        aborted = tool(java_tools, broker.bootstrap_servers, "abort", *where, "--start-offset", "0")
        assert aborted.exit_code == 0, aborted.text
        assert stable_end(raw, "stuck") == 2
        assert aborted_in(fetch(raw, "stuck", committed=True)) == [(producer.producer_id, 0)]
