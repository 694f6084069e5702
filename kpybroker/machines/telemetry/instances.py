"""The clients that were seen lately: Kafka's ``ClientMetricsInstance`` and the cache of them.

Invariant: there are at most `MOST_INSTANCES`; the one that was used longest ago makes room. An instance ends with the
connection that it was made on, or when its client has been silent for three push intervals and a minute at least.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kpybroker.machines.telemetry.series import Series
from kpybroker.machines.telemetry.subscriptions import Attributes, ClientSubscriptions, SubscribedMetrics
from kpywire import error_codes

MOST_INSTANCES: Final = 16_384
SILENT_MS: Final = 60_000
"""The shortest silence that ends an instance."""
SWEEP_MS: Final = 10_000
_NEVER: Final = float("-inf")
_ASKS_AGAIN: Final = (error_codes.UNKNOWN_SUBSCRIPTION_ID, error_codes.UNSUPPORTED_COMPRESSION_TYPE)
"""The errors after which a client asks for its subscription without waiting."""


class TelemetryConnection:
    """A client's connection, as far as instances end with it."""

    __slots__ = ("_instances", "instance_id")

    def __init__(self, instances: "Instances") -> None:
        self._instances = instances
        self.instance_id: bytes | None = None
        """The instance that was last made on it."""

    def close(self) -> None:
        """End its instance: the connection is gone."""
        if self.instance_id is not None:
            self._instances.drop(self.instance_id)


class Instance:
    """One client with the subscription that it was given."""

    __slots__ = (
        "_last_get_ms", "_last_push_ms", "attributes", "connection", "expires_ms", "id", "is_terminating", "last_error",
        "series", "subscription_id", "version", "wanted",
    )  # fmt: skip

    def __init__(self, instance_id: bytes, attributes: Attributes, wanted: SubscribedMetrics, version: int) -> None:
        """``version``: that of the subscriptions from which ``wanted`` was read."""
        self.id = instance_id
        self.attributes = attributes
        self.wanted = wanted
        self.subscription_id = wanted.subscription_id(instance_id)
        self.version = version
        self.is_terminating = False
        """Whether its last push was to be its last one."""
        self.last_error = error_codes.NONE
        self.series = Series()
        self.connection: TelemetryConnection | None = None
        """The connection of its last request."""
        self.expires_ms = 0.0
        self._last_get_ms = _NEVER
        self._last_push_ms = _NEVER

    def may_get(self, now_ms: float) -> bool:
        """Whether its question for its subscription comes in time. If so, the question counts."""
        if now_ms - max(self._last_get_ms, self._last_push_ms) < self.wanted.interval_ms:
            return self.last_error in _ASKS_AGAIN
        self._last_get_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Whether its push comes in time: also the first one after its question, since clients wait between half and
        one and a half intervals. If so, the push counts."""
        is_early = now_ms - self._last_push_ms < self.wanted.interval_ms
        if is_early and self._last_get_ms <= self._last_push_ms:
            return False
        self._last_push_ms = now_ms
        return True


class Instances:
    """All instances of a broker."""

    def __init__(self, subscriptions: ClientSubscriptions, ended: Callable[["Instance"], object]) -> None:
        """``ended`` gets each instance that ends."""
        self._subscriptions = subscriptions
        self._ended = ended
        self._by_id: OrderedDict[bytes, Instance] = OrderedDict()
        self._sweep_ms = 0.0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._by_id

    def get(self, instance_id: bytes) -> Instance | None:
        """The instance as it is now."""
        return self._by_id.get(instance_id)

    def of_request(
        self, instance_id: bytes, attributes: Attributes, connection: TelemetryConnection, now_ms: float
    ) -> Instance:
        """The instance of a request: made if there is none, made again if the subscriptions have changed. The
        attributes of the first request count."""
        self.sweep(now_ms)
        found = self._by_id.get(instance_id)
        if found is not None and found.expires_ms <= now_ms:
            self._expire(found)
            found = None
        if found is None or found.version < self._subscriptions.version:
            found = self._made(instance_id, attributes, found)
            connection.instance_id = instance_id
        self._by_id.move_to_end(instance_id)
        found.connection = connection
        found.expires_ms = now_ms + max(SILENT_MS, 3 * found.wanted.interval_ms)
        return found

    def _made(self, instance_id: bytes, attributes: Attributes, before: Instance | None) -> Instance:
        known = attributes if before is None else before.attributes
        made = Instance(instance_id, known, self._subscriptions.wanted_of(known), self._subscriptions.version)
        if before is not None:
            made.series = before.series
        self._by_id[instance_id] = made
        if len(self._by_id) > MOST_INSTANCES:
            self._ended(self._by_id.popitem(last=False)[1])
        return made

    def drop(self, instance_id: bytes) -> None:
        """End an instance, if it is there."""
        ended = self._by_id.pop(instance_id, None)
        if ended is not None:
            self._ended(ended)

    def sweep(self, now_ms: float) -> None:
        """End the instances of silent clients, from time to time."""
        if now_ms >= self._sweep_ms:
            self._sweep_ms = now_ms + SWEEP_MS
            self.expire(now_ms)

    def expire(self, now_ms: float) -> None:
        """End the instances of silent clients."""
        for each in [each for each in self._by_id.values() if each.expires_ms <= now_ms]:
            self._expire(each)

    def _expire(self, instance: Instance) -> None:
        self.drop(instance.id)
        if instance.connection is not None:
            instance.connection.instance_id = None
