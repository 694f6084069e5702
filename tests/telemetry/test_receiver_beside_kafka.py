"""The same requests at the same times for Kafka's ``ClientMetricsManager``: the same answers, instances and values."""

import struct
from collections.abc import Iterator
from random import Random

import pytest

from kpybroker.config.client_metrics import values_of
from kpybroker.machines.metadata.image import CLIENT_METRICS_RESOURCE
from kpybroker.machines.telemetry.instances import TelemetryConnection
from kpybroker.machines.telemetry.payload import Payload, read
from kpybroker.machines.telemetry.receiver import Receiver, ReceiverLimits
from kpybroker.runtime.calls.steps import at_once
from kpywire.compression import compress
from kpywire.errors import Malformed
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ZERO_UUID, from_string, to_string
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play
from support.otlp import CUMULATIVE, DELTA, GAUGE, SUM, Metric, fixed64, metrics_data, nested, number, varint

STEPS = 250
MAX_BYTES = 400
ZERO = to_string(ZERO_UUID)
IDS = (*(to_string(bytes(15) + bytes([number])) for number in (1, 2, 3)), to_string(b"\xfe" * 16))
"""The first is reserved."""
CLIENTS = ("reader-1", "reader-2", "writer", "-")
PAUSES_MS = (0, 0, 0, 1, 99, 100, 101, 500, 999, 1_000, 5_000, 61_000, 300_000, 901_000)
PATTERNS = (
    "", "client_id=reader.*", "client_id=reader", "client_id=.*,client_software_name=software", "client_source_port=7",
    "client_source_address=127[.]0[.]0[.]1", "client_software_version=1[.]2=", "client_instance_id=____.*",
    "client_id=writer,client_id=reader-1",
)  # fmt: skip
METRICS = ("*", "", "a.b", "a.b,c", "org.apache.kafka.", "c,*", "d,e,f,g")
PAYLOADS = (
    b"", b"\x0a\x00", b"\xff", metrics_data([Metric("a.b", [({}, 1)])]), bytes(MAX_BYTES), bytes(MAX_BYTES + 1),
    b"\x0a\x00" * (MAX_BYTES // 2), b"\x0a\x00" * MAX_BYTES,
)  # fmt: skip


def started() -> AskedOracle:
    return AskedOracle("TelemetryOracle.java", "TelemetryOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


class Ours:
    """The receiver, asked by the same words as ``TelemetryOracle``."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.receiver = Receiver(self.configs, values_of, ReceiverLimits(MAX_BYTES, 1_000), Random(1))
        self.connections: dict[str, TelemetryConnection] = {}

    def ask(self, pause_ms: int, command: str, *words: str) -> str:
        self.now_ms += pause_ms
        self.receiver.instances.expire(self.now_ms)  # Kafka has timers
        return str(getattr(self, command)(*words))

    def set(self, name: str, *configs: str) -> str:
        self.configs[CLIENT_METRICS_RESOURCE, name] = dict(each.partition("=")[::2] for each in configs)  # type: ignore[misc]
        self.receiver.configs_changed(self.configs, [(CLIENT_METRICS_RESOURCE, name)])
        return ""

    def _attributes(self, client: str) -> dict[str, str | None]:
        return {
            "client_id": None if client == "-" else client,
            "client_software_name": "software",
            "client_software_version": "1.2",
            "client_source_address": "127.0.0.1",
            "client_source_port": "7",
        }

    def _connection(self, name: str) -> TelemetryConnection:
        return self.connections.setdefault(name, self.receiver.connection())

    def get(self, connection: str, client: str, instance: str) -> str:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=from_string(instance))
        found = self.receiver.get(request, self._attributes(client), self._connection(connection), self.now_ms)
        codecs = list(found.accepted_compression_types)
        return (
            f"{found.error_code} {to_string(found.client_instance_id)} {found.subscription_id} "
            f"{found.push_interval_ms} {codecs} {found.telemetry_max_bytes} {str(found.delta_temporality).lower()} "
            f"{','.join(sorted(found.requested_metrics))}"
        )

    def push(
        self, connection: str, client: str, instance: str, subscription: str, terminating: str, codec: str, content: str
    ) -> str:
        request = PushTelemetryRequest(
            client_instance_id=from_string(instance),
            subscription_id=int(subscription),
            terminating=terminating == "1",
            compression_type=int(codec),
            metrics=bytes.fromhex(content),
        )
        work = self.receiver.push(request, self._attributes(client), self._connection(connection), self.now_ms)
        return str(at_once(work))

    def close(self, connection: str) -> str:
        closed = self.connections.pop(connection, None)
        if closed is not None:
            closed.close()
        return ""

    def known(self, instance: str) -> str:
        return str(from_string(instance) in self.receiver.instances).lower()


class Pair:
    """Both, and what each of them has answered for its own ids and subscriptions."""

    def __init__(self, kafka: Asked) -> None:
        self.kafka, self.ours = kafka, Ours()
        self.kafka.ask_for_line(0, "begin", MAX_BYTES)
        self.ids = [(each, each) for each in IDS]
        self.subscriptions: dict[tuple[str, str], tuple[str, str]] = {}
        self.errors: set[str] = set()
        self.connections = ["c1", "c2", "c3"]

    def alike(self, pause_ms: int, command: str, *words: str) -> str:
        theirs = self.kafka.ask_for_line(pause_ms, command, *words)
        assert self.ours.ask(pause_ms, command, *words) == theirs, (pause_ms, command, words)
        return theirs

    def get(self, pause_ms: int, connection: str, client: str, ids: tuple[str, str]) -> None:
        theirs = self.kafka.ask_for_line(pause_ms, "get", connection, client, ids[0]).split(" ")
        ours = self.ours.ask(pause_ms, "get", connection, client, ids[1]).split(" ")
        assert (ours[0], ours[3:]) == (theirs[0], theirs[3:])
        self.errors.add(theirs[0])
        if theirs[0] != "0":
            assert ours == theirs
            return
        if ids[0] == ZERO:
            ids = (theirs[1], ours[1])
            self.ids = [*self.ids[: len(IDS)], *self.ids[len(IDS) :][-2:], ids]
        assert ids == (theirs[1], ours[1])
        self.subscriptions[ids] = (theirs[2], ours[2])

    def push(self, rng: Random, pause_ms: int, ids: tuple[str, str]) -> None:
        connection, client = rng.choice(self.connections), rng.choice(CLIENTS)
        is_known = rng.random() < 0.85
        subscription = self.subscriptions.get(ids, ("5", "5")) if is_known else ("17", "17")
        codec = rng.choice((0, 0, 1, 2, 3, 4, 5, -1))
        content = rng.choice(PAYLOADS)
        packed = compress(codec, content) if codec in (1, 2, 3, 4) and rng.random() < 0.9 else content
        rest = (str(int(rng.random() < 0.1)), str(codec), packed.hex())
        theirs = self.kafka.ask_for_line(pause_ms, "push", connection, client, ids[0], subscription[0], *rest)
        ours = self.ours.ask(pause_ms, "push", connection, client, ids[1], subscription[1], *rest)
        assert ours == theirs, (ids, rest)
        self.errors.add(theirs)


@pytest.mark.java
@pytest.mark.seeds(0, 8)
def test_random_histories_are_answered_as_by_kafka(kafka: AskedOracle, seed: int) -> None:
    play(kafka, seed)


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_are_answered_as_kafka_did(recorded: Play, seed: int) -> None:
    play(recorded(started), seed)


def play(kafka: Asked, seed: int) -> None:
    rng, pair = Random(seed), Pair(kafka)
    for step in range(STEPS):
        pause_ms = rng.choice(PAUSES_MS)
        match rng.choices(("get", "new", "push", "set", "close"), (6, 1, 10, 2, 1))[0]:
            case "get":
                pair.get(pause_ms, rng.choice(pair.connections), rng.choice(CLIENTS), rng.choice(pair.ids))
            case "new":
                pair.get(pause_ms, rng.choice(pair.connections), rng.choice(CLIENTS), (ZERO, ZERO))
            case "push":
                pair.push(rng, pause_ms, rng.choice(pair.ids))
            case "set":
                configs = [f"metrics={rng.choice(METRICS)}", f"interval.ms={rng.choice((100, 1_000, 400_000))}"]
                configs += [f"match={pattern}" for pattern in (rng.choice(PATTERNS),) if pattern]
                pair.alike(pause_ms, "set", rng.choice("st"), *(configs if rng.random() < 0.8 else ()))
            case "close":
                pair.alike(pause_ms, "close", pair.connections.pop(rng.randrange(3)))
                pair.connections.append(f"c{len(pair.connections)}-{step}")
        for theirs, ours in pair.ids:
            known = pair.kafka.ask_for_line(0, "known", theirs)
            assert pair.ours.ask(0, "known", ours) == known
    assert {"0", "42", "89", "117"} <= pair.errors


def points_of(payload: Payload) -> list[str]:
    """The points as ``TelemetryOracle`` prints them."""
    return [
        f"{point.name} {_java_map(dict(point.labels))} {_bits(point.value)} "
        f"{str(point.is_delta).lower()} {str(point.is_counter).lower()}"
        for point in payload.points
    ]


def _java_map(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) + "}"


def _bits(value: float) -> int:
    return int(struct.unpack(">q", struct.pack(">d", value))[0])


def random_metric(rng: Random) -> Metric:
    values = (0, 1, -1, 2**40, 0.5, -1e300, float("inf"), rng.random())
    labels = ("topic", "node_id", "n", "ümlaut")
    return Metric(
        rng.choice(("a", "org.apache.kafka.consumer.x", "名")),
        [
            ({name: rng.choice(("x", "", "ß", True, False, 3, -7)) for name in labels[: rng.randrange(5)]}, value)
            for value in rng.choices(values, k=rng.randrange(4))
        ],
        rng.choice((GAUGE, SUM)),
        rng.choice((DELTA, CUMULATIVE)),
        rng.random() < 0.5,
    )


UNKNOWN = (
    number(50, 3), number(51, -1), nested(52, b"more"), fixed64(53, bytes(8)), varint(54 << 3 | 5) + bytes(4),
    number(1, 7), nested(1, nested(1, b"")),
)  # fmt: skip
"""Fields that no reader knows, the last but one with a type that the field 1 does not have, and an empty message."""


@pytest.mark.java
@pytest.mark.seeds(100, 4)
def test_payloads_are_read_as_opentelemetrys_classes_read_them(kafka: AskedOracle, seed: int) -> None:
    read_alike(kafka, seed)


def test_payloads_are_read_as_opentelemetrys_classes_did(recorded: Play) -> None:
    read_alike(recorded(started), 100)


def read_alike(kafka: Asked, seed: int) -> None:
    rng = Random(seed)
    kinds = set()
    for _ in range(60):
        content = metrics_data([random_metric(rng) for _ in range(rng.randrange(4))], {"group_id": "g"})
        content += b"".join(rng.choices(UNKNOWN, k=rng.randrange(3)))
        theirs = kafka.ask_for_line(0, "parse", content.hex())
        ours = at_once(read(content))
        assert theirs.split("|")[1:] == points_of(ours)
        assert ours.client == {"group_id": "g"}
        kinds |= {(point.is_delta, point.is_counter) for point in ours.points}
    assert len(kinds) == 4


@pytest.mark.java
@pytest.mark.seeds(200, 4)
def test_no_payload_is_refused_that_opentelemetrys_classes_read(kafka: AskedOracle, seed: int) -> None:
    """The reverse does not hold: what is stepped over is not looked into. Groups (types 3 and 4) are refused."""
    rng = Random(seed)
    refused = 0
    for _ in range(150):
        damaged = bytearray(metrics_data([random_metric(rng), random_metric(rng)]))
        for _ in range(rng.randrange(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        content = bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])
        reason = refusal(content)
        refused += bool(reason)
        if reason and "of the type" not in reason:
            assert kafka.ask_for_line(0, "parse", content.hex()) == "!", (content.hex(), reason)
    assert refused > 20


def refusal(content: bytes) -> str:
    """The reason why a payload is refused; nothing if it is not."""
    try:
        at_once(read(content))
    except Malformed as error:
        return str(error)
    return ""
