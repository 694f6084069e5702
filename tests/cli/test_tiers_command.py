"""``kpybroker tiers`` against a broker whose metadata of remote logs a test has written, and an empty store."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.client.client import Client, Spot
from kpybroker.client.tier_requests import EARLIEST_PENDING_UPLOAD_TIMESTAMP, LATEST_TIERED_TIMESTAMP
from kpybroker.hosts.remote_log.metadata_values import written_value
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.remote_log.segments import (
    FINISHED,
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpybroker.testing import Broker
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from kpywire.remote_log_record import TOPIC
from support.waiting import eventually

TIERED = Spot("orders", 0)
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "kpybroker.remote.store": "memory:",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
LIST_OFFSETS = Client.list_offsets


def listed(client: Client, wanted: Mapping[Spot, int], **how: bool) -> dict[Spot, int]:
    """The answers of a broker on which all records but one are copied."""
    if LATEST_TIERED_TIMESTAMP in wanted.values():
        return {spot: end - 2 for spot, end in LIST_OFFSETS(client, dict.fromkeys(wanted, -1)).items()}
    if EARLIEST_PENDING_UPLOAD_TIMESTAMP in wanted.values():
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, "ListOffsets is too old")
    return LIST_OFFSETS(client, wanted, **how)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as made:
        made.create_topic("orders", partitions=2, config={"remote.storage.enable": "true"})
        made.create_topic("plain")
        with Client(made.bootstrap_servers) as client:
            eventually(lambda: client.topics([TOPIC])[0].error_code == error_codes.NONE, "the topic of the metadata")
            topic_id = client.topic("orders").topic_id
            send(client, TIERED, [b"record"] * 10)
            now_ms = time.time_ns() // 1_000_000
            one, two, gone = (segment(topic_id, number, now_ms) for number in range(3))
            send(client, Spot(TOPIC, 0), [written_value(one), written_value(one.update(FINISHED, 1, now_ms))])
            send(client, Spot(TOPIC, 0), [written_value(two._replace(event_timestamp_ms=now_ms - 3_600_000))])
            send(client, Spot(TOPIC, 1), [b"no record", b""])
            other = gone._replace(id=gone.id._replace(topic_id=b"o" * 16))
            deleted = RemotePartitionDelete(
                b"o" * 16, "old", 0, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, now_ms, 1
            )
            send(client, Spot(TOPIC, 2), [written_value(other), written_value(deleted)])
        yield made


def segment(topic_id: bytes, number: int, now_ms: int) -> RemoteLogSegment:
    identity = RemoteLogSegmentId(topic_id, "orders", 0, bytes([number]) * 16)
    start = number * 5
    return RemoteLogSegment(
        identity, start, start + 4, 1, now_ms, now_ms, ((0, start),), 1 << 20, None, STARTED,
        is_transaction_index_empty=True,
    )  # fmt: skip


def send(client: Client, spot: Spot, values: list[bytes]) -> None:
    records = build_batch([Record(timestamp=1, value=value) for value in values])
    part = PartitionProduceData(index=spot.partition, records=records)
    topic = client.topic(spot.topic)
    data = TopicProduceData(name=spot.topic, topic_id=topic.topic_id, partition_data=[part])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
    (answer,) = client.call_node(client.leader(spot), request).responses[0].partition_responses
    assert answer.error_code == error_codes.NONE


@pytest.fixture(autouse=True)
def offsets_of_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "list_offsets", listed)


def invoke(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(main, ["tiers", *words, "-b", broker.bootstrap_servers])


def shown(broker: Broker, *words: str) -> Any:
    return json.loads(invoke(broker, "show", *words, "--json").stdout)


def test_tiered_topics_are_shown_with_their_segments_and_unfinished_copies(broker: Broker):
    found = shown(broker)
    first, second = found["partitions"]
    assert (first["topic"], first["partition"], second["partition"]) == ("orders", 0, 1)
    assert (first["end"], first["last_tiered"], first["behind"], first["pending"]) == (10, 8, 1, None)
    assert first["states"] == {"COPY_SEGMENT_STARTED": 1, "COPY_SEGMENT_FINISHED": 1, "DELETE_SEGMENT_STARTED": 0}
    assert first["remote_bytes"] == 1 << 20
    assert 3_600_000 <= first["unfinished_ms"] < 3_700_000
    assert first["local_bytes"] > 0
    assert second["states"]["COPY_SEGMENT_FINISHED"] == 0


def test_every_cell_of_the_table_is_true(broker: Broker):
    headings, first, second = invoke(broker, "show").stdout.splitlines()[:3]
    assert len(re.split(r"\s{2,}", headings)) == 12
    *cells, on_disk, in_store, segments, unfinished, note = re.split(r"\s{2,}", first)
    assert cells == ["orders", "0", "0", "0", "8", "10", "1"]
    assert re.fullmatch(r"\d+ B", on_disk)
    assert (in_store, segments, unfinished, note) == ("1 MiB", "2", "for 1 h", "1 unfinished")
    assert re.split(r"\s{2,}", second)[:7] == ["orders", "1", "0", "0", "-", "0", "0"]


def test_the_table_has_sums_and_prices(broker: Broker):
    result = invoke(broker, "show", "orders:0", "--price-gb-month", "1024", "--price-1000-writes", "500")
    assert "for 1 h" in result.stdout
    assert "1 partition, 1 MiB in the store, 1 records not copied yet." in result.stdout
    assert "Cost per month: 4.00 = 1.00 for storage at 1024 per GiB + 3.00 for the writes" in result.stdout


def test_records_that_cannot_be_read_are_counted(broker: Broker):
    assert "2 records of the metadata cannot be read and are left out." in invoke(broker, "show").stderr


def test_a_topic_that_is_not_tiered_is_named(broker: Broker):
    assert invoke(broker, "show", "plain").stderr == "plain is not tiered: remote.storage.enable is false.\n"
    assert shown(broker, "plain")["not_tiered"] == ["plain"]


def test_an_unknown_topic_is_one_line(broker: Broker):
    result = invoke(broker, "show", "nowhere")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: topic nowhere does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )


def test_a_check_says_what_the_store_lacks(broker: Broker, tmp_path: Path):
    (tmp_path / "store").mkdir()
    config = tmp_path / "server.properties"
    settings = "process.roles=broker,controller\nnode.id=1\nremote.log.storage.system.enable=true\n"
    config.write_text(f"{settings}kpybroker.remote.store=file://{tmp_path}/store\n")
    result = invoke(broker, "check", str(config))
    assert result.exit_code == 4, result.output
    assert "missing     orders-0 offsets 0 to 4" in result.stdout
    assert "unfinished  orders-0 offsets 5 to 9" in result.stdout
    assert "1 segment, 0 objects, 0 B in the store: 2 findings." in result.stdout
    read = json.loads(invoke(broker, "check", str(config), "--read", "--json").stdout)
    assert sorted(each["kind"] for each in read["findings"]) == ["missing", "unfinished", "unreadable"]


def test_a_file_without_a_store_is_one_line(broker: Broker, tmp_path: Path):
    config = tmp_path / "server.properties"
    config.write_text("process.roles=broker,controller\nnode.id=1\n")
    result = invoke(broker, "check", str(config))
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: ")
