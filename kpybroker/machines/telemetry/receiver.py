"""The receiver of clients' metrics: its answers to GetTelemetrySubscriptions and PushTelemetry, by Kafka's rules.

Kafka answers these requests by its ``ClientMetricsManager`` and hands the payloads to a plug-in; this is both. Only
metrics that a subscription wants of their client are kept.

Invariant: all clients together have at most ``most_series``. If there would be more, the client whose last push is the
longest ago loses its series.
"""

from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from kpybroker.machines.telemetry.instances import Instance, Instances, TelemetryConnection
from kpybroker.machines.telemetry.payload import Point, read
from kpybroker.machines.telemetry.series import Key, keyed
from kpybroker.machines.telemetry.subscriptions import Attributes, ClientSubscriptions, Configs, ValuesOf
from kpywire import error_codes
from kpywire.compression import GZIP, LZ4, SNAPPY, ZSTD, decompress
from kpywire.errors import Malformed
from kpywire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ONE_UUID, UUID_BYTES, ZERO_UUID, random_uuid, to_string, usable

ACCEPTED_CODECS: Final = (ZSTD, LZ4, GZIP, SNAPPY)
"""The codecs that clients are offered, the preferred one first."""

MOST_PARTS: Final = 1024
"""The most members and blocks of a compressed payload. Clients write one, or one for each 32 KiB."""

LONGEST_ATTRIBUTE: Final = 256
"""The characters of a client id that are remembered and matched; a request may have 32 767."""


class ReceiverLimits(NamedTuple):
    """The limits of a receiver."""

    payload_bytes: int
    """The most bytes of a payload, as it comes and unpacked (``telemetry.max.bytes``)."""
    series: int
    """The most series of all clients together; 0 for no receiver, which opens no payload."""


class ReceiverCounts(NamedTuple):
    """The outcomes of requests since the start."""

    throttled: int
    unknown_subscriptions: int
    pushes: int
    invalid_payloads: int
    values_left_out: int


class Receiver:
    """The client metrics of one broker."""

    def __init__(
        self,
        configs: Configs,
        values_of: ValuesOf,
        bounds: ReceiverLimits,
        rng: Random,
        taken_labels: Collection[str] = (),
    ) -> None:
        """``configs``: all configs of the cluster's resources. ``taken_labels``: see `keyed`."""
        self._subscriptions = ClientSubscriptions(configs, values_of)
        self.instances = Instances(self._subscriptions, self._drop_series)
        self._bounds = bounds
        self._rng = rng
        self._taken_labels = taken_labels
        self._pushers: OrderedDict[bytes, Instance] = OrderedDict()
        """The instances with series, the one with the latest push last."""
        self._series = 0
        self._throttled = self._unknown_subscriptions = self._pushes = self._invalid = self._left_out = 0

    def configs_changed(self, configs: Configs, resources: Collection[tuple[int, str]]) -> None:
        """Apply a change of the configs of ``resources``."""
        self._subscriptions.changed(configs, resources)

    def connection(self) -> TelemetryConnection:
        """The connection of a client that has just sent its first request."""
        return TelemetryConnection(self.instances)

    @property
    def counts(self) -> ReceiverCounts:
        """The outcomes so far."""
        return ReceiverCounts(self._throttled, self._unknown_subscriptions, self._pushes, self._invalid, self._left_out)

    def shown(self, now_ms: float) -> list[Instance]:
        """The clients with series, as they are at this moment."""
        self.instances.sweep(now_ms)
        return [each for each in self._pushers.values() if each.expires_ms > now_ms]

    # Requests

    def get(
        self,
        request: GetTelemetrySubscriptionsRequest,
        attributes: Attributes,
        connection: TelemetryConnection,
        now_ms: float,
    ) -> GetTelemetrySubscriptionsResponse:
        """Answer a client that asks for its subscription. ``attributes`` lack its instance id."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, attributes, connection, now_ms)
        if not instance.may_get(now_ms):
            self._throttled += 1
            return refused_get(error_codes.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = error_codes.NONE
        return GetTelemetrySubscriptionsResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=instance.wanted.interval_ms,
            telemetry_max_bytes=self._bounds.payload_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.wanted.metrics),
        )

    def push(
        self, request: PushTelemetryRequest, attributes: Attributes, connection: TelemetryConnection, now_ms: float
    ) -> Generator[None, None, int]:
        """Take a push, in steps. Return the error code of its answer."""
        instance_id = request.client_instance_id
        if instance_id in (ZERO_UUID, ONE_UUID):
            return error_codes.INVALID_REQUEST
        instance = self._instance(instance_id, attributes, connection, now_ms)
        error = self._refusal(request, instance, now_ms)
        instance.is_terminating = request.terminating
        if error == error_codes.NONE and request.metrics and self._bounds.series:
            error = yield from self._take(request, instance)
        instance.last_error = error
        return error

    def _refusal(self, request: PushTelemetryRequest, instance: Instance, now_ms: float) -> int:
        """The error of a push, before its payload is opened."""
        if instance.is_terminating:
            return error_codes.INVALID_REQUEST
        if not instance.may_push(now_ms) and not request.terminating:
            self._throttled += 1
            return error_codes.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != instance.subscription_id:
            self._unknown_subscriptions += 1
            return error_codes.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type and request.compression_type not in ACCEPTED_CODECS:
            return error_codes.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self._bounds.payload_bytes:
            return error_codes.TELEMETRY_TOO_LARGE
        return error_codes.NONE

    def _take(self, request: PushTelemetryRequest, instance: Instance) -> Generator[None, None, int]:
        try:
            content = decompress(request.compression_type, request.metrics, self._bounds.payload_bytes, MOST_PARTS)
            yield
            payload = yield from read(content)
            points = yield from keyed(payload.points, self._taken_labels)
        except Malformed:
            self._invalid += 1
            return error_codes.INVALID_RECORD
        self._pushes += 1
        current = self.instances.get(instance.id)
        if current is not None:  # nobody has ended it meanwhile
            self._left_out += payload.left_out
            self._keep(current, points, payload.client)
        return error_codes.NONE

    def _keep(self, instance: Instance, points: Iterable[tuple[Key, Point]], client: Mapping[str, str]) -> None:
        series = instance.series
        before = len(series)
        self._left_out += series.take(points, client, instance.wanted)
        self._series += len(series) - before
        self._pushers[instance.id] = instance
        self._pushers.move_to_end(instance.id)
        while self._series > self._bounds.series:
            longest_ago = next(iter(self._pushers.values()))
            self._left_out += len(longest_ago.series)
            self._drop_series(longest_ago)

    def _drop_series(self, instance: Instance) -> None:
        """Drop the series of an instance."""
        self._pushers.pop(instance.id, None)
        self._series -= len(instance.series)
        instance.series.forget()

    def _instance(
        self, instance_id: bytes, attributes: Attributes, connection: TelemetryConnection, now_ms: float
    ) -> Instance:
        known = {name: text and text[:LONGEST_ATTRIBUTE] for name, text in attributes.items()}
        named = {**known, "client_instance_id": to_string(instance_id)}
        instance = self.instances.of_request(instance_id, named, connection, now_ms)
        if (
            instance_id in self._pushers and self._pushers[instance_id] is not instance
        ):  # the subscriptions have changed
            self._series -= instance.series.keep(instance.wanted)
            self._pushers[instance_id] = instance
        return instance

    def _new_id(self) -> bytes:
        while True:
            instance_id = random_uuid(self._rng.randbytes(UUID_BYTES))
            if usable(instance_id) and instance_id not in self.instances:
                return instance_id


def refused_get(error_code: int) -> GetTelemetrySubscriptionsResponse:
    """An answer that is only an error."""
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=error_code,
        client_instance_id=ZERO_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )
