"""A node's configuration: defaults, precedence, listeners, and what it refuses to start with."""

import subprocess
import sys

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import Listener, parse_listeners
from oracle.configs import ask

QUORUM = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
SHARE_CHECKED = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


def refusal(**overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load(None, {name.replace("_", "."): value for name, value in overrides.items()})
    assert "\n" not in error.value.message
    return error.value.message


class TestDefaults:
    def test_an_empty_config_is_a_node_on_localhost(self):
        config = BrokerConfig.load()
        assert config.listeners == [Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")]
        assert config.advertised_listeners == config.broker_listeners == config.listeners
        assert config.controller_listeners == []
        assert (config.node_id, config["broker.id"], config.process_roles) == (1, 1, ("broker", "controller"))
        assert (config.log_dirs, config.metadata_log_dir) == (("./data",), "./data")
        assert config.standalone
        assert config.warnings == []

    def test_internal_topics_of_a_node_alone_have_one_replica(self):
        config = BrokerConfig.load()
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            assert config[f"{topic}.replication.factor"] == 1
        assert config["transaction.state.log.min.isr"] == config["share.coordinator.state.topic.min.isr"] == 1

    def test_a_node_of_a_quorum_has_kafkas_defaults(self):
        config = BrokerConfig.load(None, QUORUM)
        assert config["offsets.topic.replication.factor"] == 3
        assert not config.standalone

    def test_overrides_win_over_the_file(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text("log.segment.bytes=2000000\nnum.partitions=7\n")
        config = BrokerConfig.load(path, {"num.partitions": "9"})
        assert (config["log.segment.bytes"], config.num_partitions) == (2000000, 9)

    def test_a_file_without_listeners_means_kafkas(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text("")
        config = BrokerConfig.load(path)
        assert config.listeners == [Listener("PLAINTEXT", "", 9092, "PLAINTEXT")]
        assert config.log_dirs == ("/tmp/kafka-logs",)

    def test_broker_id_stands_for_node_id(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text("broker.id=5\nlog.dir=/x\n")
        config = BrokerConfig.load(path)
        assert (config.node_id, config.log_dirs) == (5, ("/x",))

    def test_the_file_that_kafka_ships_starts(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
            "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n"
            "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n"
            "log.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\noffsets.topic.replication.factor=1\n"
            "log.retention.hours=168\nlog.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n"
        )
        config = BrokerConfig.load(path)
        assert config.warnings == []
        assert [str(listener) for listener in config.broker_listeners] == ["PLAINTEXT://:9092"]
        assert [str(listener) for listener in config.controller_listeners] == ["CONTROLLER://:9093"]
        assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]


class TestCost:
    def test_a_start_loads_neither_texts_nor_what_answers_requests(self):
        seen = subprocess.run(
            [sys.executable, "-c", "import sys, kpybroker.config.broker; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        late = {"json", "asyncio", "socket", "logging", "kpywire.messages", "difflib"}
        late |= {
            f"kpybroker.config.{name}" for name in ("documentation", "describe", "alter", "client_metrics", "group")
        }
        assert "kpybroker.config.broker" in seen
        assert not late & set(seen)


class TestPrecedence:
    @pytest.mark.parametrize(
        ("set_", "retention_ms"),
        [
            ({}, 604_800_000),
            ({"log.retention.hours": "2"}, 7_200_000),
            ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
            ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
            ({"log.retention.ms": "-1", "log.retention.minutes": "3"}, -1),
            ({"log.retention.hours": "-1"}, -1),
        ],
    )
    def test_the_finest_unit_of_retention_wins(self, set_, retention_ms):
        assert BrokerConfig.load(None, set_).log_retention_ms == retention_ms

    def test_the_finest_unit_of_rolling_and_flushing_wins(self):
        coarse = BrokerConfig.load(None, {"log.roll.hours": "1", "log.roll.jitter.hours": "1"})
        assert (coarse.log_roll_ms, coarse.log_roll_jitter_ms) == (3_600_000, 3_600_000)
        fine = BrokerConfig.load(None, {"log.roll.hours": "1", "log.roll.ms": "5", "log.flush.interval.ms": "6"})
        assert (fine.log_roll_ms, fine.log_flush_interval_ms) == (5, 6)
        assert BrokerConfig.load(None, {"log.flush.scheduler.interval.ms": "7"}).log_flush_interval_ms == 7

    def test_dynamic_configs_win_and_set_the_synonyms_aside(self):
        config = BrokerConfig.load(None, {"log.retention.ms": "1000", "message.max.bytes": "1"})
        updated = config.with_dynamic(
            {"message.max.bytes": "2", "log.retention.ms": "2000"}, {"message.max.bytes": "3"}
        )
        assert (updated.message_max_bytes, updated.log_retention_ms) == (3, 2000)
        assert updated.with_dynamic({}, {}).message_max_bytes == 1
        assert config.message_max_bytes == 1


class TestListeners:
    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            ("PLAINTEXT://:9092", "", 9092),
            ("plaintext://Host-1.example_x:0", "Host-1.example_x", 0),
            ("PLAINTEXT://[::1]:9092", "::1", 9092),
            ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
            ("PLAINTEXT://::1:9092", "::1", 9092),
        ],
    )
    def test_hosts_and_ports(self, text, host, port):
        config = BrokerConfig.load(None, {"listeners": text})
        assert config.listeners == [Listener("PLAINTEXT", host, port, "PLAINTEXT")]

    def test_names_of_ones_own_map_to_plaintext(self):
        config = BrokerConfig.load(
            None,
            {
                "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9094,CTRL://127.0.0.1:9093",
                "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:plaintext,CTRL:PLAINTEXT",
                "inter.broker.listener.name": "inside",
                "controller.listener.names": "CTRL",
            },
        )
        assert config.inter_broker_listener_name == "INSIDE"
        assert [listener.name for listener in config.broker_listeners] == ["INSIDE", "OUTSIDE"]
        assert [listener.name for listener in config.controller_listeners] == ["CTRL"]

    def test_one_port_serves_ipv4_and_ipv6(self):
        uris = ("A://127.0.0.1:9092", "B://[::1]:9092")
        assert len(parse_listeners(uris, {"A": "PLAINTEXT", "B": "PLAINTEXT"}, distinct_ports=True)) == 2

    def test_a_listener_prints_as_it_is_written(self):
        assert str(Listener("A", "::1", 5, "PLAINTEXT")) == "A://[::1]:5"
        assert str(Listener("A", "h", 5, "PLAINTEXT")) == "A://h:5"

    def test_a_port_out_of_range_is_refused(self):
        assert "port 65536 is not between" in refusal(listeners="PLAINTEXT://:65536")


WITH_TLS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SECURE://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL,CONTROLLER:PLAINTEXT",
}


class TestRefusals:
    @pytest.mark.parametrize(
        "settings",
        [
            {
                "listeners": "A://:1",
                "listener.security.protocol.map": "A:SASL_PLAINTEXT",
                "inter.broker.listener.name": "A",
            },
            {"delegation.token.master.key": "x"},
            {"principal.builder.class": "org.example.Builder"},
            {"security.providers": "org.example.Provider"},
            {"sasl.enabled.mechanism": "PLAIN"},
            {"ssl.keystore.file": "/x"},
            {"listener.name.plaintext.ssl.keystore.file": "/x"},
            {"listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN"},
            {"listener.name.plaintext.scram-sha-256.sasl.jaas.config": "x"},
            {"listener.name.plaintext.nonsense": "x"},
            {"authorizer.properties": "x"},
        ],
    )
    def test_security_that_is_not_there_is_refused_not_ignored(self, settings):
        message = refusal(**settings)
        assert any(words in message for words in ("cannot be", "is missing", "not understood", "that uses SASL"))

    @pytest.mark.parametrize(
        ("settings", "name"),
        [
            ({"listener.name.plaintext.ssl.client.auth": "required"}, "listener.name.plaintext.ssl.client.auth:"),
            ({"listener.name.nosuch.ssl.client.auth": "required"}, "listener.name.nosuch.ssl.client.auth:"),
            ({**WITH_TLS, "listener.name.secure.ssl.client.auth": "Required "}, "Invalid value Required "),
            ({**WITH_TLS, "ssl.engine.factory.class": "org.example.Engine"}, "ssl.engine.factory.class:"),
            ({"listener.name.nosuch.sasl.enabled.mechanisms": "PLAIN"}, "listener.name.nosuch.sasl.enabled."),
            ({"sasl.enabled.mechanism": "PLAIN"}, "sasl.enabled.mechanism:"),
            ({"super.users": "User:admin", "ssl.client.auth": "required"}, "super.users:"),
        ],
    )
    def test_unsupported_listener_security_is_refused_by_its_name(self, settings, name):
        assert refusal(**settings).startswith(name)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ssl.client.auth", "required"),
            ("ssl.keystore.location", "/no/such.jks"),
            ("ssl.keystore.password", "not shown"),
            ("ssl.endpoint.identification.algorithm", ""),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("sasl.jaas.config", "not shown"),
            ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
            ("connections.max.reauth.ms", "1000"),
        ],
    )
    def test_settings_that_protect_nothing_are_warned_about_with_the_clients_let_in(self, name, value):
        config = BrokerConfig.load(None, {name: value, "listeners": "PLAINTEXT://127.0.0.1:9092"})
        warning = (
            "every listener is PLAINTEXT, open to every client that reaches it; without effect, as on Apache Kafka: "
            f"{name}"
        )
        assert config.warnings == [warning]

    def test_keys_without_a_listener_that_reads_them_are_checked_all_the_same(self):
        assert "ssl.client.auth" in refusal(**{"ssl.client.auth": "maybe"})

    @pytest.mark.parametrize(
        "settings",
        [
            {"security.inter.broker.protocol": "PLAINTEXT"},
            {"authorizer.class.name": ""},
            {"sasl.enabled.mechanisms": "GSSAPI"},
            {"listener.name.plaintext.max.connections": "5"},
            {"principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"},
            {"metric.reporters": "org.apache.kafka.common.metrics.JmxReporter"},
            {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
            {"replica.selector.class": ""},
        ],
    )
    def test_settings_that_ask_for_nothing_pass(self, settings):
        assert "PLAINTEXT" in str(BrokerConfig.load(None, settings).listeners)

    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            ({"zookeeper.connect": "localhost:2181"}, "zookeeper.connect"),
            ({"process.roles": "broker"}, "either controller.quorum.bootstrap.servers must contain"),
            ({"process.roles": "controller", "listeners": "CONTROLLER://:9093"}, "or controller.quorum.voters must"),
            ({"create.topic.policy.class.name": "org.example.Policy"}, "create.topic.policy.class.name"),
            ({"config.providers": "file"}, "config.providers"),
            ({"group.consumer.assignors": "org.example.Assignor"}, "Class cannot be found"),
        ],
    )
    def test_configs_of_unsupported_roles_are_refused(self, settings, word):
        assert word in refusal(**settings)

    @pytest.mark.parametrize(
        ("settings", "warning"),
        [
            ({"leader.replication.throttled.rate": "5"}, "leader.replication.throttled.rate has no effect in a file"),
            ({"log.segment.byte": "1"}, "log.segment.byte is not a config that is known here, it is ignored; "),
            ({"a\nb": "1"}, "'a\\nb' is not a config that is known here"),
            ({"port": "9092"}, "port is no longer a config; its place was taken by listeners"),
            ({"metric.reporters": "org.example.Reporter"}, "metric.reporters: org.example.Reporter is a Java class"),
            ({"replica.selector.class": "org.example.Selector"}, "replica.selector.class: org.example.Selector is not"),
            ({"remote.log.index.file.cache.ttl.ms": "9"}, "without effect yet: remote.log.index.file.cache.ttl.ms"),
        ],
    )
    def test_the_rest_is_a_warning(self, settings, warning):
        assert [text for text in BrokerConfig.load(None, settings).warnings if text.startswith(warning)]

    def test_metrics_listen_on_loopback_by_default(self):
        assert BrokerConfig.load(None, {})["kpybroker.http.listener"].startswith("127.0.0.1:")

    @pytest.mark.parametrize("address", ["9404", "host:", "host:x", "host:70000", "a b:1"])
    def test_a_http_listener_that_is_none(self, address):
        assert refusal(kpybroker_http_listener=address).startswith(
            f"Invalid value {address} for configuration kpybroker"
        )

    def test_the_line_of_the_file_is_named(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text("node.id=1\n\nlog.segment.bytes=12\n")
        with pytest.raises(ConfigError) as error:
            BrokerConfig.load(path)
        assert error.value.message == (
            f"{path}:3: Invalid value 12 for configuration log.segment.bytes: Value must be at least 1048576"
        )

    def test_an_override_is_not_blamed_on_the_file(self, tmp_path):
        path = tmp_path / "server.properties"
        path.write_text("log.segment.bytes=2000000\n")
        with pytest.raises(
            ConfigError, match=r"^/.*server.properties: Invalid value x for configuration log.segment.bytes"
        ):
            BrokerConfig.load(path, {"log.segment.bytes": "x"})


BAD = [
    {"listeners": "PLAINTEXT:9092,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://a b:9092,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://a:9092,PLAINTEXT://b:9093,CONTROLLER://127.0.0.1:9094"},
    {"listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://localhost:9093,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092"},
    {"listeners": "CONTROLLER://127.0.0.1:9093"},
    {"listeners": ""},
    {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "CONTROLLER://a:9092"},
    {
        "advertised.listeners": "OTHER://a:9092",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT",
    },
    {"listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://localhost:9093"},
    {"listeners": "PLAINTEXT://a:9093,CONTROLLER://localhost:9093"},
    {"advertised.listeners": ""},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"inter.broker.listener.name": "FOO"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:TLS,CONTROLLER:PLAINTEXT"},
    {"controller.listener.names": "CONTROLLER,SECOND"},
    {"broker.id": "2"},
    {"process.roles": "broker,worker"},
    {"process.roles": ""},
    {"controller.quorum.voters": "1"},
    {"controller.quorum.voters": "x@localhost:9093"},
    {"controller.quorum.voters": "1@local host:9093"},
    {"controller.quorum.voters": "1@localhost:"},
    {"controller.quorum.voters": "1@0.0.0.0:9093"},
    {"controller.quorum.voters": "2@localhost:9093"},
    {"controller.quorum.bootstrap.servers": "localhost"},
    {"log.roll.ms": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.ms": "0"},
    {"log.dirs": ""},
    {"log.cleaner.dedupe.buffer.size": "1048576"},
    {"replica.fetch.wait.max.ms": "30001"},
    {"replica.fetch.wait.max.ms": "31", "replica.lag.time.max.ms": "30"},
    {"queued.max.request.bytes": "1000"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip.overrides": "a b:5"},
    {"connections.max.idle.ms": "100"},
    {"cordoned.log.dirs": "*,/x"},
    {"cordoned.log.dirs": "/x"},
    {"group.consumer.min.heartbeat.interval.ms": "6000"},
    {"group.consumer.max.heartbeat.interval.ms": "4000"},
    {"group.consumer.heartbeat.interval.ms": "16000"},
    {"group.consumer.session.timeout.ms": "44000"},
    {"group.consumer.session.timeout.ms": "61000"},
    {"group.consumer.assignment.interval.ms": "16000"},
    {"group.share.heartbeat.interval.ms": "1"},
    {"group.share.min.session.timeout.ms": "61000"},
    {"group.share.max.share.sessions": "100"},
    {"group.share.assignors": "simple,other"},
    {"group.streams.assignors": "mine"},
    {"group.streams.assignors": "sticky,mine"},
    {"group.streams.assignors": ""},
    {"group.streams.rack.aware.assignment.tags": "zone,zone"},
    {"group.streams.rack.aware.assignment.tags": "zone,,row"},
    {"group.streams.num.warmup.replicas": "21"},
    {"group.streams.task.offset.interval.ms": "14999"},
    {"group.streams.topology.description.plugin.class": "org.example.Plugin"},
    {"max.decompressed.message.bytes": "0"},
    {"log.remote.copy.lag.ms": "-2"},
    {"group.streams.num.standby.replicas": "3"},
    {"group.streams.max.assignment.interval.ms": "10"},
    {"min.insync.replicas": "0"},
    {"node.id": "-1"},
    {"compression.type": "brotli"},
]


MAPPED = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
ROLES = {
    "broker,controller": QUORUM,
    "broker": {**QUORUM, "process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"},
    "controller": {**QUORUM, "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"},
}
OF_ROLES = [
    {},
    {"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093", "controller.quorum.bootstrap.servers": ""},
    {"controller.quorum.voters": "2@b:9093,3@c:9093"},
    {"controller.quorum.voters": "1@a:9093,1@b:9093"},
    {"controller.quorum.voters": "-1@a:9093"},
    {"controller.quorum.voters": "1@a:9093,2@b:70000"},
    {"controller.quorum.bootstrap.servers": "a:9093,b:9093,c:9093"},
    {"controller.listener.names": ""},
    {"controller.listener.names": "CONTROLLER,OTHER"},
    {"controller.listener.names": "CONTROLLER,OTHER", "listeners": "CONTROLLER://:9093,OTHER://:9094", **MAPPED},
    {"controller.listener.names": "ELSE"},
    {"listeners": "CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093"},
    {"listeners": "CONTROLLER://:9093,OTHER://:9094", **MAPPED},
    {"advertised.listeners": "PLAINTEXT://h:9092"},
    {"advertised.listeners": "CONTROLLER://h:9093"},
    {"advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093"},
    {"advertised.listeners": "CONTROLLER://0.0.0.0:9093"},
    {"advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://0.0.0.0:9093"},
    {"advertised.listeners": "PLAINTEXT://h:9092,OTHER://h:9094", **MAPPED},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "FOO"},
    {"inter.broker.listener.name": "OTHER", **MAPPED},
    {"controller.quorum.auto.join.enable": "true"},
    {"early.start.listeners": "PLAINTEXT"},
    {"early.start.listeners": "FOO"},
    {"process.roles": "broker,broker"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
]
NO_QUORUM = [{**ROLES[roles], "controller.quorum.bootstrap.servers": ""} for roles in ("broker", "controller")]


@pytest.mark.java
def test_configs_that_kafka_refuses_are_refused_with_its_text():
    settings = [{**QUORUM, **each} for each in BAD]
    settings += [{**of_role, **each} for of_role in ROLES.values() for each in OF_ROLES] + NO_QUORUM
    differing = {}
    for each, answer in zip(settings, ask({"do": "broker", "props": each} for each in settings), strict=True):
        kafka = answer.get("error", "started")
        try:
            BrokerConfig.load(None, each, defaults={})
            ours = "started"
        except ConfigError as error:
            ours = error.message
        if ours != kafka:
            differing[str(each)] = (kafka, ours)
    assert differing == {}


@pytest.mark.parametrize(
    ("settings", "host", "port"),
    [
        ({"listeners": "CONTROLLER://b:1"}, "b", 1),
        ({"listeners": "CONTROLLER://b:1", "advertised.listeners": "CONTROLLER://x:2"}, "x", 2),
        ({"listeners": "CONTROLLER://0.0.0.0:1"}, "a", 9093),
        ({"listeners": "CONTROLLER://:1"}, "a", 9093),
        (
            {
                "listeners": "CONTROLLER://0.0.0.0:1",
                "controller.quorum.voters": "",
                "controller.quorum.bootstrap.servers": "a:9093",
            },
            "",
            1,
        ),
    ],
)
def test_other_nodes_reach_a_controller_where_it_or_the_voters_say(settings, host, port):
    alone = {**ROLES["controller"], "controller.quorum.voters": "1@a:9093,2@b:9093"}
    config = BrokerConfig.load(None, {**alone, **settings}, defaults={})
    assert [(one.host, one.port) for one in config.advertised_controller_listeners] == [(host, port)]
    assert config.broker_listeners == []


@pytest.mark.java
def test_values_listeners_and_topic_defaults_are_kafkas():
    from kpybroker.config.topic import broker_defaults
    from kpybroker.machines.config_def import to_text

    variants = [
        {},
        {
            "log.retention.minutes": "5",
            "log.roll.hours": "3",
            "log.roll.jitter.hours": "2",
            "log.flush.interval.ms": "9",
        },
        {"log.retention.hours": "-1", "compression.type": "zstd", "log.cleanup.policy": "compact,delete"},
        {"listeners": "A://[::1]:1,B://:2,CONTROLLER://:3", "inter.broker.listener.name": "A"}
        | {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"}
        | {"advertised.listeners": "A://one:1,B://two:1", "controller.quorum.bootstrap.servers": "x:3"},
    ]
    for settings, answer in zip(
        variants, ask({"do": "broker", "props": {**QUORUM, **v}} for v in variants), strict=True
    ):
        config = BrokerConfig.load(None, {**QUORUM, **settings}, defaults={})
        assert {name: to_text(config.value(name)) for name in answer["values"]} == answer["values"]
        ours = {name: to_text(value) for name, value in broker_defaults(config).items()}
        assert {name: ours[name] for name in answer["log"]} == answer["log"]
        for kind, listeners in (("listeners", config.listeners), ("advertised", config.advertised_listeners)):
            printed = [
                f"Endpoint(listenerName='{one.name}', securityProtocol={one.protocol}, "
                f"host='{one.host or 'null'}', port={one.port})"
                for one in listeners
            ]
            assert answer[kind].replace("host=null", "host='null'").split(";") == printed


def test_listeners_may_have_limits_of_their_own() -> None:
    config = BrokerConfig.load(
        None,
        {
            "listeners": "INSIDE://:9091,OUTSIDE://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "INSIDE",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.outside.max.connections": "5",
        },
    )
    assert config.max_connections_of_listeners == {"OUTSIDE": 5}
    changed = config.updated({"listener.name.inside.max.connections": "7"}, {})
    assert changed.max_connections_of_listeners == {"OUTSIDE": 5, "INSIDE": 7}


def test_a_throttle_that_alter_configs_set_is_no_mistake_of_a_file() -> None:
    config = BrokerConfig.load()
    assert config.updated({"leader.replication.throttled.rate": "5"}, {}).warnings == config.warnings
