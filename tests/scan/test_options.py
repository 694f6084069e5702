"""Options of scans: names, defaults and errors are those of Spark's Kafka source."""

import json
from pathlib import Path

import pytest

from kpybroker.machines.scan.bounds import Bound
from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.options import NARROW_TASK_BYTES, TASK_BYTES, for_batch, for_stream, read_options
from kpybroker.machines.scan.topics import Assigned, Matching, Subscribed
from kpybroker.pipeline.scan.checkpoint import offsets_in
from kpybroker.pipeline.scan.connecting import client_of, transport_of, warnings_of

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def test_missing_options_have_the_defaults_of_sparks_source() -> None:
    options = read_options(BASE)
    assert (options.servers, options.topics, options.wanted.columns[-1]) == (
        "localhost:9092",
        Subscribed(("t",)),
        "timestampType",
    )
    assert options.wanted.fails_on_data_loss
    assert not options.wanted.committed_only
    assert options.max_delay_ms == 15 * 60 * 1000
    batch, stream = for_batch(options, BASE), for_stream(options, BASE)
    assert batch.starting == Bound("startingOffsets", word="earliest")
    assert batch.ending == Bound("endingOffsets", word="latest")
    assert stream.starting == Bound("startingOffsets", word="latest")


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ({"columns": "offset,timestamp,key"}, NARROW_TASK_BYTES),
        ({"columns": "offset", "filter": "partition = 1"}, NARROW_TASK_BYTES),
        ({"columns": "offset", "filter": "value.n = 1"}, TASK_BYTES),
        ({"columns": "offset,headers"}, TASK_BYTES),
        ({"columns": "offset", "taskBytes": "77"}, 77),
    ],
)
def test_tasks_that_need_no_values_have_more_bytes(configured: dict[str, str], expected: int) -> None:
    assert read_options(BASE | configured).sizes.task_bytes == expected


def test_configs_of_the_store_have_the_names_of_a_brokers_file_in_any_case() -> None:
    pairs = "rsm.config.encryption.key.pairs"
    configured = {
        "transport": "Objects",
        "KPYBROKER.remote.store": "s3://Bucket/Prefix",
        "rsm.config.chunk.size": "7",
        pairs: "Key1, other",
        f"{pairs}.key1.public.key.file": "/a/Public.pem",
        f"{pairs}.KEY1.private.key.file": "/a/Private.pem",
        f"{pairs}.other.public.key.file": "/b",
    }
    options = read_options(BASE | configured)
    assert options.store == {
        "kpybroker.remote.store": "s3://Bucket/Prefix",
        "rsm.config.chunk.size": "7",
        pairs: "Key1, other",
        f"{pairs}.Key1.public.key.file": "/a/Public.pem",
        f"{pairs}.Key1.private.key.file": "/a/Private.pem",
        f"{pairs}.other.public.key.file": "/b",
    }
    assert options.reads_store
    assert "Bucket" not in repr(options)
    assert warnings_of(options) == []
    assert not read_options(BASE | configured | {"transport": "fetch"}).reads_store


def test_names_have_any_case() -> None:
    configured = {
        "KAFKA.bootstrap.servers": "a:1",
        "SubscribePattern": "t.*",
        "INCLUDEHEADERS": "True",
        "maxOffsetsPerTrigger": "5",
        "maxTriggerDelay": "1h",
        "columns": "VALUE, timestamptype,headers",
        "kafka.isolation.level": "read_committed",
        "failondataloss": "false",
    }
    options = read_options(configured)
    assert options.topics == Matching("t.*")
    limited = for_stream(options, configured)
    assert (limited.max_offsets, limited.max_delay_ms) == (5, 3_600_000)
    assert options.wanted == options.wanted._replace(
        columns=("value", "timestampType", "headers"), committed_only=True, fails_on_data_loss=False
    )


def test_partitions_and_offsets_are_json() -> None:
    configured = {
        "kafka.bootstrap.servers": "a:1",
        "assign": '{"t": [0, 2]}',
        "startingOffsets": '{"t": {"0": 5, "2": -2}}',
        "endingTimestamp": "99",
    }
    options = read_options(configured)
    assert options.topics == Assigned({"t": (0, 2)})
    assert options.starting == Bound("startingOffsets", offsets={("t", 0): 5, ("t", 2): -2})
    assert options.ending == Bound("endingTimestamp", time_ms=99)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders", "orders-eu"]),
        ("^orders$", ["orders"]),
        ("s", ["orders", "orders-eu"]),
        (r"o(?!rders).", ["other"]),
        (r"\p{Lu}", []),
    ],
)
def test_a_pattern_takes_topics_in_whose_names_it_is_found(pattern: str, found: list[str]) -> None:
    """Spark's source does the same: ``topicRegex.findFirstIn(name)``."""
    topics = read_options({"kafka.bootstrap.servers": "a:1", "subscribePattern": pattern}).topics
    assert isinstance(topics, Matching)
    assert [name for name in ("orders", "orders-eu", "other") if topics.takes(name)] == found


def test_a_time_wins_over_times_and_these_over_offsets() -> None:
    configured = {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}
    by_partition = read_options(BASE | configured).starting
    assert by_partition == Bound("startingOffsetsByTimestamp", times_ms={("t", 0): 7}, latest_if_none=False)
    strategy = {"startingOffsetsByTimestampStrategy": "LATEST", "startingTimestamp": "3"}
    assert read_options(BASE | configured | strategy).starting == Bound("startingTimestamp", time_ms=3)


WRONG = [
    ({"transport": "objects"}, "transport=objects needs the store: set kpybroker.remote.store, or rsm.config"),
    ({"subscribe": None}, "One of the following options must be specified for Kafka source: subscribe"),
    ({"assign": '{"t":[0]}'}, "Only one of the following options can be specified for Kafka source"),
    ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
    ({"subscribe": " ,"}, "No topics to subscribe to"),
    ({"subscribe": None, "subscribePattern": ""}, "Pattern to subscribe is empty"),
    ({"subscribe": None, "subscribePattern": "("}, "is no regular expression that is known here"),
    ({"subscribe": None, "assign": "[]"}, "No topicpartitions to assign"),
    ({"subscribe": None, "assign": '{"t":["0"]}'}, "assign: Expected e.g."),
    ({"startingOffsets": "first"}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": '{"t":{"0":true}}'}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": '{"t":[1]}'}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": "[" * 5000}, "startingOffsets: Expected e.g."),
    ({"startingTimestamp": "noon"}, "startingTimestamp is a whole number, not 'noon'"),
    ({"startingOffsets": " "}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": '{"t":{" 0":1}}'}, "startingOffsets: Expected e.g."),
    ({"startingOffsetsByTimestampStrategy": " error"}, "is error or latest, not ' error'"),
    ({"includeHeaders": " true"}, "includeHeaders is true or false, not ' true'"),
    ({"minPartitions": " 4"}, "minPartitions is a whole number, not ' 4'"),
    ({"minPartitions": "1_0"}, "minPartitions is a whole number, not '1_0'"),
    ({"minPartitions": "2147483648"}, "minPartitions must be 2147483647 or less"),
    ({"fetchOffset.numRetries": "x"}, "fetchOffset.numRetries is a whole number"),
    ({"kafka.isolation.level": "READ_COMMITTED"}, "isolation.level is read_uncommitted or read_committed"),
    ({"startingOffsetsByTimestampStrategy": "first"}, "is error or latest, not 'first'"),
    ({"minPartitions": "0"}, "minPartitions must be positive"),
    ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition is a whole number"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
    ({"columns": "colour"}, "there is no column colour"),
    ({"columns": ","}, "columns names none"),
    ({"filter": "colour = 1"}, "filter: there is no column colour"),
    ({"transport": "pigeon"}, "transport is auto, fetch, files or objects"),
    ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported. Instead set"),
    ({"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
]


@pytest.mark.parametrize(("changes", "problem"), WRONG)
def test_a_wrong_option_is_one_line(changes: dict[str, str | None], problem: str) -> None:
    configured = {key: value for key, value in (BASE | changes).items() if value is not None}
    with pytest.raises(BadOption, match=problem) as raised:
        read_options(configured)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"3":-1}}'}, "startingOffsets for t-3 can't be latest for batch queries"),
        ({"endingOffsets": '{"t":{"3":-2}}'}, "ending offset for t-3 can't be earliest for batch queries"),
        ({"startingOffsetsFromCheckpoint": "/x"}, "startingOffsetsFromCheckpoint is for streaming queries"),
    ],
)
def test_a_batch_has_bounds_of_its_own(configured: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        for_batch(read_options(BASE | configured), BASE | configured)


def test_limits_of_streams_are_ignored_in_batches() -> None:
    configured = BASE | {"maxOffsetsPerTrigger": "many"}
    assert for_batch(read_options(configured), configured).warnings == (
        "maxOffsetsPerTrigger option ignored in batch queries",
    )


def test_numbers_and_times_are_read_as_by_java() -> None:
    configured = BASE | {"minPartitions": "+4", "startingTimestamp": " -2 ", "maxTriggerDelay": "-1S"}
    options = for_stream(read_options(configured), configured)
    assert (options.sizes.min_tasks, options.max_delay_ms) == (4, -1000)
    assert options.starting == Bound("startingTimestamp", time_ms=-2, latest_if_none=False)


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is a duration such as"),
        ({"maxTriggerDelay": "1 m"}, "maxTriggerDelay is a duration such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetPerTrigger\(9\) is higher than"),
    ],
)
def test_limits_of_a_stream_that_are_wrong_are_refused(configured: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        for_stream(read_options(BASE | configured), BASE | configured)


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "5"}, "ending timestamp not valid in streaming queries"),
        ({"startingOffsetsFromCheckpoint": "/x", "startingOffsets": "latest"}, "are both set; give one of them"),
    ],
)
def test_a_stream_has_no_end(configured: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        for_stream(read_options(BASE | configured), BASE | configured)


def test_options_without_effect_are_named() -> None:
    configured = {
        "maxOffsetPerTrigger": "5",
        "kafka.fetch.mx.bytes": "5",
        "kafka.max.poll.records": "1",
        "groupIdPrefix": "g",
    }
    assert warnings_of(read_options(BASE | configured)) == [
        "the option maxoffsetpertrigger is not known and has no effect; did you mean maxOffsetsPerTrigger?",
        "the option kafka.fetch.mx.bytes has no effect here; did you mean kafka.fetch.max.bytes?",
    ]


def test_properties_of_the_client_have_kafkas_names_and_secrets_are_not_shown() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hidden";'
    configured = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
        "kafka.request.timeout.ms": "1234",
        "kafka.default.api.timeout.ms": "5678",
    }
    options = read_options(BASE | configured)
    client = client_of(options)
    assert (client.timeout_s, client.settings.api_timeout_s, client.settings.protocol) == (
        1.234,
        5.678,
        "SASL_PLAINTEXT",
    )
    assert "hidden" not in f"{options!r} {client.settings!r}"
    with pytest.raises(BadOption, match=r"kafka\.sasl\.jaas\.config") as raised:
        client_of(read_options(BASE | configured | {"kafka.sasl.jaas.config": jaas.replace("username", "user")}))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        ({"kafka.request.timeout.ms": "soon"}, r"kafka\.request\.timeout\.ms is a whole number from 1 on, not 'soon'"),
        ({"kafka.bootstrap.servers": "host:x"}, r"kafka\.bootstrap\.servers: not an address of a broker: 'host:x'"),
        ({"kafka.security.protocol": "SASL_SSL"}, r"kafka\.security\.protocol=SASL_SSL needs a sasl\.mechanism"),
        ({"kafka.isolation.level": "dirty"}, r"kafka\.isolation\.level is read_uncommitted or read_committed"),
    ],
)
def test_a_wrong_property_is_one_line(configured: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        client_of(read_options(BASE | configured))


def test_fetch_limits_are_those_of_javas_consumer() -> None:
    configured = {"kafka.max.partition.fetch.bytes": "10", "kafka.fetch.max.bytes": "0", "kafka.fetch.max.wait.ms": "7"}
    settings = vars(transport_of(read_options(BASE | configured | {"kafkaConsumer.pollTimeoutMs": "900"})))["_fetching"]
    assert settings == (1, 7, 0.9)


def write_checkpoint(directory: Path, sources: list[str], batches: int = 2) -> None:
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
    for number in range(batches):
        (directory / "offsets" / str(number)).write_text("\n".join(["v1", "{}", *sources]).replace("N", str(number)))
        (directory / "commits" / str(number)).write_text("v1\n{}")
    (directory / "offsets" / str(batches)).write_text("v1\n{}\nnot committed")
    (directory / "offsets" / ".9.tmp").write_text("")


def test_a_checkpoint_of_sparks_kafka_source_says_where_to_go_on(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, ['{"t":{"0":1N,"1":2N}}', '{"other":{"0":5}}', '{"logOffset":3}'])
    assert offsets_in(str(tmp_path), ["t"]) == {("t", 0): 11, ("t", 1): 21}
    assert offsets_in(f"file://{tmp_path}", ["t", "u"]) == {("t", 0): 11, ("t", 1): 21}


def test_a_checkpoint_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="is no checkpoint of Spark"):
        offsets_in(str(tmp_path / "nowhere"), ["t"])
    with pytest.raises(BadOption, match="is not a local directory"):
        offsets_in("hdfs://host/dir", ["t"])
    write_checkpoint(tmp_path / "two", [json.dumps({"t": {"0": 1}})] * 2)
    with pytest.raises(BadOption, match=r"2 sources of .* read no other topics than t"):
        offsets_in(str(tmp_path / "two"), ["t"])
    write_checkpoint(tmp_path / "new", ["{}"])
    (tmp_path / "new" / "offsets" / "1").write_text("v2\n{}\n{}")
    with pytest.raises(BadOption, match="has the format v2"):
        offsets_in(str(tmp_path / "new"), ["t"])


def test_times_are_those_of_java_and_of_sparks_source() -> None:
    plain = read_options(BASE)
    assert client_of(plain).settings.api_timeout_s == 60
    assert client_of(read_options(BASE | {"kafka.default.api.timeout.ms": "5000"})).settings.api_timeout_s == 5
    assert (plain.attempts, plain.pause_ms) == (3, 1_000)
    configured = read_options(BASE | {"fetchOffset.numRetries": "7", "fetchOffset.retryIntervalMs": "0"})
    assert (configured.attempts, configured.pause_ms) == (7, 0)
    assert read_options(BASE | {"fetchOffset.numRetries": "0"}).attempts == 1
