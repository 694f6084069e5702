"""Paths of the APIs of client metrics (KIP-714): see `error_paths`. The oracle has a receiver (`oracle.RECEIVER`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from differential.steps import Pause, learned
from differential.world import call
from kpywire import api
from kpywire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ONE_UUID, ZERO_UUID
from support.otlp import Metric, metrics_data
from support.raw_requests import UNKNOWN_ID, incremental_alteration

CLIENT_METRICS = 16
SET, DELETE = 0, 1
APPLIED_MS = 300
MEBIBYTE = 1 << 20
PAYLOAD = metrics_data([Metric("org.apache.kafka.consumer.poll", [({"topic": "t"}, 1.5)])])


def _get(actor: str, instance_id: Any = None) -> Any:
    own = learned("instance_id", actor) if instance_id is None else instance_id
    return call(actor, 0, GetTelemetrySubscriptionsRequest(client_instance_id=own))


def _push(actor: str, **fields: Any) -> Any:
    known: dict[str, Any] = {
        "client_instance_id": learned("instance_id", actor),
        "subscription_id": learned("subscription_id", actor),
        "terminating": False,
        "compression_type": NONE,
        "metrics": b"",
    }
    return call(actor, 0, PushTelemetryRequest(**known | fields))


def _subscribe(*configs: tuple[str, int, str | None]) -> Iterator[Any]:
    yield call("admin", 1, incremental_alteration((CLIENT_METRICS, "~m", list(configs))))
    yield Pause(APPLIED_MS)


def _get_telemetry_subscriptions(_version: int) -> Iterator[Any]:
    yield _get("ga", ZERO_UUID)
    yield _get("ga")
    yield _get("gb", UNKNOWN_ID)
    yield _get("gc", ONE_UUID)
    yield from _subscribe(("metrics", SET, "a.b,c"), ("interval.ms", SET, "100"))
    yield _get("ga")
    yield _get("gd", ZERO_UUID)
    yield Pause(150)
    yield _get("gd")
    for pattern in ("client_id=nobody", "client_id=.*", "client_software_name=unknown,client_source_address=127.*"):
        yield from _subscribe(("match", SET, pattern))
        yield _get("gd")
    yield from _subscribe(("metrics", SET, "*,a"))
    yield _get("gd")
    yield from _subscribe(*((name, DELETE, None) for name in ("metrics", "interval.ms", "match")))
    yield _get("gd")


def _push_telemetry(_version: int) -> Iterator[Any]:
    for instance_id in (ZERO_UUID, ONE_UUID):
        yield _push("p0", client_instance_id=instance_id, subscription_id=0)
    yield _push("p1", client_instance_id=UNKNOWN_ID, subscription_id=1)
    yield _get("p2", ZERO_UUID)
    for terminating in (False, False, True, False, False, True):
        yield _push("p2", terminating=terminating)
    refused: tuple[Mapping[str, Any], ...] = (
        {"subscription_id": 7}, {"compression_type": 9}, {"compression_type": -1}, {"metrics": b"\xff"},
        {"metrics": bytes(MEBIBYTE + 1)}, {"metrics": PAYLOAD, "compression_type": GZIP},
        {"metrics": compress(ZSTD, b"\x0a\x00" * MEBIBYTE), "compression_type": ZSTD},
    )  # fmt: skip
    for number, fields in enumerate(refused):
        yield _get(f"pr{number}", ZERO_UUID)
        yield _push(f"pr{number}", **fields)
        yield _get(f"pr{number}")
        yield _push(f"pr{number}", metrics=PAYLOAD)
    for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD):
        yield _get(f"pc{codec}", ZERO_UUID)
        yield _push(f"pc{codec}", compression_type=codec, metrics=compress(codec, PAYLOAD))


PATHS: Mapping[int, Any] = {
    api.GET_TELEMETRY_SUBSCRIPTIONS: _get_telemetry_subscriptions,
    api.PUSH_TELEMETRY: _push_telemetry,
}
"""By api key; see `error_paths.Paths`."""
