"""The handlers: one module per API key, named like kpywire's message modules, with ``handle(broker, request, call)``.

Two modules serve many keys: `forwarded` passes requests to the active controller, `quorum` to this node's part of the
metadata quorum. ApiVersions advertises the rows of `kpybroker.machines.apis`. A module is imported when its first
request arrives.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from kpybroker.machines.apis import APIS
from kpywire import api

SERVED: Final = tuple(api.API_KEYS[key].module for key in APIS)
"""The modules of the messages that are served."""


class NotYet(NamedTuple):
    """The newest version of an API that is served; None if none is. ``reason`` says what the newer ones need."""

    newest: int | None
    reason: str


NOT_YET: Final[Mapping[str, NotYet]] = {}
"""The APIs whose newest versions Kafka serves and this broker does not. All others are advertised at Kafka's versions:
the messages of another Kafka bring a row for each version that they raise, and it goes when the version is served."""

ADVERTISED_FROM_ZERO = frozenset({0})
"""The API keys advertised from version 0. Produce is served from 3, but old librdkafka enables codecs only if version 0
is advertised (KAFKA-18659)."""


def _versions(key: int) -> tuple[int, int]:
    """The first version of a served API, and the newest that is served."""
    entry = api.API_KEYS[key]
    cap = NOT_YET.get(entry.module)
    return entry.min_version, entry.max_version if cap is None or cap.newest is None else cap.newest


def served_versions() -> dict[int, tuple[int, int]]:
    """The versions of each api key that a broker's listener serves: ``{key: (first, last)}``, both included."""
    return {key: _versions(key) for key, served in APIS.items() if served.at_broker is not None}


OF_CLIENT_METRICS = frozenset({api.GET_TELEMETRY_SUBSCRIPTIONS, api.PUSH_TELEMETRY})
"""The API keys of KIP-714. They are always served, and advertised once a subscription exists."""


OF_ZOOKEEPER_MODE = frozenset(key for key, entry in api.API_KEYS.items() if entry.listeners == ("zkBroker",))
"""The API keys that only brokers in ZooKeeper mode serve, and their controllers send (Kafka 3.9)."""

OF_ZOOKEEPER_CONTROLLERS = ("leader_and_isr", "stop_replica", "update_metadata")
"""The handlers of what such a controller orders."""


def controller_versions() -> dict[int, tuple[int, int]]:
    """The versions of each api key that a controller's listener serves."""
    return {key: _versions(key) for key, served in APIS.items() if served.at_controller is not None}


def home_of(name: str) -> str:
    """The name of the module that handles the messages of ``name``."""
    from kpybroker.requests.handlers import forwarded, quorum

    return "forwarded" if name in forwarded.FORWARDED else "quorum" if name in quorum.QUORUM else name


def load(api_key: int) -> Any:
    """The handler module of a served api key. It has ``handle``; ``codec(version)`` if it brings its own codec, and
    ``request_decoder(version)`` if it brings the half of it that decodes."""
    return import_module(f"kpybroker.requests.handlers.{home_of(api.API_KEYS[api_key].module)}")


def load_for_controller(api_key: int) -> Any:
    """Like `load`, on a controller's listener, where Fetch reads the metadata log."""
    if api_key == api.FETCH:
        from kpybroker.requests.handlers import quorum

        return quorum
    return load(api_key)
