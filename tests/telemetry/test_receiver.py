"""The receiver keeps what was asked for, within its bounds, for as long as a client is there."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.config.client_metrics import values_of
from kpybroker.machines.metadata.image import CLIENT_METRICS_RESOURCE
from kpybroker.machines.telemetry import instances
from kpybroker.machines.telemetry.instances import TelemetryConnection
from kpybroker.machines.telemetry.payload import Point
from kpybroker.machines.telemetry.receiver import LONGEST_ATTRIBUTE, Receiver, ReceiverLimits
from kpybroker.machines.telemetry.series import MOST_SERIES, POINTS_PER_STEP, keyed
from kpybroker.runtime.calls.steps import at_once
from kpywire import error_codes
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ZERO_UUID
from support.otlp import CUMULATIVE, SUM, Metric, metrics_data

INTERVAL_MS = 1_000
ALL = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
ATTRIBUTES = {"client_id": "reader", "client_software_name": "s", "client_software_version": "1"}


class Clients:
    """Clients of one receiver, and their clock."""

    def __init__(self, series: int = 100, configs: Mapping[str, str] | None = None) -> None:
        self.configs = {(CLIENT_METRICS_RESOURCE, "all"): dict(ALL if configs is None else configs)}
        self.receiver = Receiver(self.configs, values_of, ReceiverLimits(1 << 20, series), Random(5), ["namespace"])
        self.now_ms = 0

    def change(self, **configs: str) -> None:
        self.configs[CLIENT_METRICS_RESOURCE, "all"] = configs
        self.receiver.configs_changed(self.configs, [(CLIENT_METRICS_RESOURCE, "all")])

    def join(self) -> "PushingClient":
        return PushingClient(self)

    def shown(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (each.key.name, each.key.labels): each.value
            for client in self.receiver.shown(self.now_ms)
            for each in client.series
        }


class PushingClient:
    """One client with a connection of its own."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.connection: TelemetryConnection = clients.receiver.connection()
        self.instance_id = ZERO_UUID
        self.subscription_id = 0

    def get(self) -> int:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        answer = self.clients.receiver.get(request, ATTRIBUTES, self.connection, self.clients.now_ms)
        if answer.error_code == error_codes.NONE:
            self.instance_id, self.subscription_id = answer.client_instance_id, answer.subscription_id
        return int(answer.error_code)

    def push(self, *metrics: Metric, labels: Mapping[str, str] | None = None) -> int:
        if self.instance_id == ZERO_UUID:
            self.get()
        self.clients.now_ms += INTERVAL_MS
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            metrics=metrics_data(metrics, labels),
        )
        work = self.clients.receiver.push(request, ATTRIBUTES, self.connection, self.clients.now_ms)
        return int(at_once(work))


def gauge(name: str, value: float = 1.0, **labels: str) -> Metric:
    return Metric(name, [(labels, value)])


def counter(name: str, value: int) -> Metric:
    return Metric(name, [({}, value)], SUM)


def test_deltas_are_summed_and_gauges_replaced() -> None:
    clients = Clients()
    client = clients.join()
    assert client.push(counter("org.apache.kafka.a.total", 3), gauge("b", 1), gauge("c", 1)) == error_codes.NONE
    assert client.push(counter("org.apache.kafka.a.total", 4), gauge("b", 5)) == error_codes.NONE
    assert clients.shown() == {("kafka_client_a_total", ()): 7, ("kafka_client_b", ()): 5}


def test_cumulative_counters_are_taken_as_they_are() -> None:
    clients = Clients()
    client = clients.join()
    for value in (3, 5):
        client.push(Metric("a", [({}, value)], SUM, CUMULATIVE))
    assert clients.shown() == {("kafka_client_a", ()): 5}


def test_a_gauge_without_a_number_is_not_shown() -> None:
    clients = Clients()
    clients.join().push(gauge("a", float("nan")), gauge("b"))
    assert list(clients.shown()) == [("kafka_client_b", ())]


def test_labels_that_are_taken_are_shown_under_another_name() -> None:
    clients = Clients()
    client = clients.join()
    client.push(gauge("a-b", **{"client_id": "liar", "namespace": "x", "node-id": "1"}), labels={"group_id": "g"})
    labels = (("exported_client_id", "liar"), ("exported_namespace", "x"), ("node_id", "1"))
    assert list(clients.shown()) == [("kafka_client_a_b", labels)]
    assert [each.series.client_labels for each in clients.receiver.shown(clients.now_ms)] == [(("group_id", "g"),)]


def test_only_what_is_subscribed_is_kept() -> None:
    clients = Clients(configs={"metrics": "a.,c", "interval.ms": str(INTERVAL_MS)})
    client = clients.join()
    assert client.push(gauge("a.x"), gauge("ab"), gauge("cc"), gauge("z")) == error_codes.NONE
    assert [name for name, _ in clients.shown()] == ["kafka_client_a_x", "kafka_client_cc"]
    clients.change(metrics="c", **{"interval.ms": str(INTERVAL_MS)})
    assert client.push(gauge("a.x")) == error_codes.UNKNOWN_SUBSCRIPTION_ID
    assert [name for name, _ in clients.shown()] == ["kafka_client_cc"]
    assert client.get() == error_codes.NONE
    clients.change()
    client.get()
    assert clients.shown() == {}


def test_no_series_are_kept_without_a_subscription() -> None:
    clients = Clients(configs={})
    client = clients.join()
    client.get()
    clients.now_ms += 300_000
    assert client.push(gauge("a")) == error_codes.NONE
    assert clients.shown() == {}


def test_the_series_of_a_client_end_with_its_connection() -> None:
    clients = Clients()
    first, second = clients.join(), clients.join()
    first.push(gauge("a"))
    second.push(gauge("b"))
    first.connection.close()
    assert list(clients.shown()) == [("kafka_client_b", ())]
    assert len(clients.receiver.instances) == 1


def test_the_second_push_of_a_moment_comes_too_early_though_the_client_has_just_asked() -> None:
    clients = Clients()
    client = clients.join()
    assert client.get() == error_codes.NONE
    clients.now_ms -= INTERVAL_MS
    assert client.push(gauge("a")) == error_codes.NONE
    clients.now_ms -= INTERVAL_MS
    assert client.push(gauge("a")) == error_codes.THROTTLING_QUOTA_EXCEEDED
    clients.now_ms -= 1
    assert client.push(gauge("a")) == error_codes.THROTTLING_QUOTA_EXCEEDED
    assert client.push(gauge("a")) == error_codes.NONE
    assert client.get() == error_codes.THROTTLING_QUOTA_EXCEEDED
    assert clients.receiver.counts.throttled == 3


def test_silent_clients_end_with_the_requests_of_others() -> None:
    clients = Clients()
    for _ in range(3):
        clients.join().push(gauge("a"))
    assert len(clients.receiver.instances) == 3
    clients.now_ms += instances.SILENT_MS
    clients.join().get()
    assert len(clients.receiver.instances) == 1


def test_a_client_that_comes_back_after_its_silence_begins_again() -> None:
    clients = Clients()
    client, other = clients.join(), clients.join()
    client.push(gauge("a"))
    clients.now_ms += instances.SILENT_MS - 1
    other.get()  # a sweep, a moment too early
    clients.now_ms += 1
    assert client.get() == error_codes.NONE
    assert clients.shown() == {}
    assert len(clients.receiver.instances) == 2


def test_the_outcomes_of_requests_are_counted() -> None:
    clients = Clients(series=2)
    client = clients.join()
    client.get()
    client.push(gauge("a"), gauge("b" * 300))
    assert clients.receiver.counts == (0, 0, 1, 0, 1)
    client.subscription_id += 1
    assert client.push(gauge("a")) == error_codes.UNKNOWN_SUBSCRIPTION_ID
    client.subscription_id -= 1
    assert client.push(gauge("a"), gauge("b"), gauge("c"), gauge("d")) == error_codes.NONE
    assert clients.receiver.counts == (0, 1, 2, 0, 1 + 4), "it has more than all may have, and loses them"
    broken = PushTelemetryRequest(
        client_instance_id=client.instance_id, subscription_id=client.subscription_id, metrics=b"\x00\x01"
    )
    clients.now_ms += INTERVAL_MS
    work = clients.receiver.push(broken, ATTRIBUTES, client.connection, clients.now_ms)
    assert at_once(work) == error_codes.INVALID_RECORD
    assert clients.receiver.counts == (0, 1, 2, 1, 5)


def test_the_keys_of_many_points_are_found_in_steps() -> None:
    for points, steps in ((POINTS_PER_STEP - 1, 0), (POINTS_PER_STEP, 1), (3 * POINTS_PER_STEP, 3)):
        work = keyed([Point("a", (), float(each), False, False) for each in range(points)], ())
        assert sum(1 for _ in work) == steps


def test_a_silent_client_is_forgotten() -> None:
    clients = Clients()
    clients.join().push(gauge("a"))
    clients.now_ms += instances.SILENT_MS - 1
    assert clients.shown()
    clients.now_ms += 1
    assert not clients.shown()
    clients.now_ms += instances.SWEEP_MS
    assert not clients.shown()
    assert len(clients.receiver.instances) == 0


def test_a_long_client_id_is_remembered_in_part() -> None:
    clients = Clients()
    client = clients.join()
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
    answer = clients.receiver.get(request, {"client_id": "x" * 30_000}, client.connection, 0)
    instance = clients.receiver.instances.get(answer.client_instance_id)
    assert instance is not None
    assert instance.attributes["client_id"] == "x" * LONGEST_ATTRIBUTE


def test_the_client_whose_last_push_is_the_longest_ago_makes_room() -> None:
    clients = Clients(series=5)
    first, second, third = clients.join(), clients.join(), clients.join()
    first.push(*(gauge(f"f{each}") for each in range(2)))
    second.push(*(gauge(f"s{each}") for each in range(2)))
    first.push(*(gauge(f"f{each}") for each in range(2)))
    third.push(*(gauge(f"t{each}") for each in range(3)))
    assert sorted(name for name, _ in clients.shown()) == [
        f"kafka_client_{each}" for each in ("f0", "f1", "t0", "t1", "t2")
    ]
    assert clients.receiver.counts.values_left_out == 2
    assert second.push(gauge("s0")) == error_codes.NONE


def test_series_of_one_client_are_bounded() -> None:
    clients = Clients(series=10 * MOST_SERIES)
    client = clients.join()
    for push in range(3):
        client.push(*(counter(f"c{push}.{each}", 1) for each in range(MOST_SERIES - 5)))
    assert len(clients.shown()) == MOST_SERIES


def test_known_counters_go_on_when_a_client_has_all_its_series_and_new_ones_are_counted() -> None:
    clients = Clients(series=2 * MOST_SERIES)
    client = clients.join()
    client.push(*(counter(f"c{each}", 1) for each in range(MOST_SERIES)))
    client.push(counter("new", 1), gauge("newer"), counter("c0", 5))
    assert clients.shown()["kafka_client_c0", ()] == 6
    assert clients.receiver.counts.values_left_out == 2


def test_the_instance_that_was_used_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MOST_INSTANCES", 3)
    clients = Clients()
    joined = [clients.join() for _ in range(4)]
    for each in joined[:3]:
        each.push(gauge("a"))
    joined[0].push(gauge("a"))
    joined[3].push(gauge("a"))
    known = [each.instance_id in clients.receiver.instances for each in joined]
    assert known == [True, False, True, True]
    assert joined[1].push(gauge("b")) == error_codes.NONE, "its subscription has the same number again"


def test_a_subscription_that_cannot_be_used_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients(configs={"metrics": "*", "match": "client_id=(?!x)"})
    assert clients.join().get() == error_codes.NONE
    assert "Subscription all to client metrics is left out: Illegal client matching pattern" in caplog.text


class Machine(RuleBasedStateMachine):
    """Whatever clients do, the sums are right and the bounds hold."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = Clients(series=12)
        self.joined = [self.clients.join() for _ in range(4)]

    @rule(caller=st.integers(0, 3), names=st.sets(st.sampled_from("abcdefgh"), max_size=6))
    def push(self, caller: int, names: set[str]) -> None:
        self.joined[caller].push(*(counter(name, 1) if name < "c" else gauge(name) for name in sorted(names)))

    @rule(caller=st.integers(0, 3))
    def get(self, caller: int) -> None:
        self.joined[caller].get()

    @rule(caller=st.integers(0, 3))
    def leave(self, caller: int) -> None:
        self.joined[caller].connection.close()
        self.joined[caller] = self.clients.join()

    @rule(metrics=st.sampled_from(("*", "a,d", "", "b")))
    def change(self, metrics: str) -> None:
        self.clients.change(metrics=metrics, **{"interval.ms": str(INTERVAL_MS)})

    @rule(pause_ms=st.sampled_from((1, 500, 61_000)))
    def wait(self, pause_ms: int) -> None:
        self.clients.now_ms += pause_ms

    @invariant()
    def the_series_are_counted_and_bounded(self) -> None:
        receiver = self.clients.receiver
        pushers = list(receiver._pushers.values())
        assert receiver._series == sum(len(each.series) for each in pushers) <= 12
        assert all(receiver.instances.get(each.id) is each for each in pushers)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30)
