"""One module per API key, named like kpywire's message modules: ``handle(broker, request, call)``.

This table is the promise that ApiVersions makes. A module is imported when its first request comes.
"""

from importlib import import_module
from typing import Any

from kpywire import api

SERVED = (
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_log_dirs",
    "describe_topic_partitions",
    "fetch",
    "find_coordinator",
    "alter_configs",
    "incremental_alter_configs",
    "init_producer_id",
    "list_offsets",
    "metadata",
    "offset_for_leader_epoch",
    "produce",
)

ADVERTISED_FROM_ZERO = frozenset({0})
"""Produce is advertised from version 0, served from 3: old librdkafka looks for 0 to enable codecs (KAFKA-18659)."""


def served_versions() -> dict[int, tuple[int, int]]:
    """The versions of each served api key: ``{key: (first, last)}``, both included."""
    modules = {entry.module: entry for entry in api.API_KEYS.values()}
    served = (modules[name] for name in SERVED)
    return {entry.key: (entry.min_version, entry.max_version) for entry in served}


CONTROLLER_SERVED = frozenset(
    {
        "api_versions",
        "alter_configs",
        "create_partitions",
        "create_topics",
        "delete_topics",
        "incremental_alter_configs",
    }
)
"""Of these, what a controller listener serves: requests that the controller decides."""


def controller_versions() -> dict[int, tuple[int, int]]:
    """The versions of each api key that a controller listener serves."""
    return {
        key: versions for key, versions in served_versions().items() if api.API_KEYS[key].module in CONTROLLER_SERVED
    }


def load(api_key: int) -> Any:
    """The handler module of a served api key: ``handle``, and ``codec(version)`` where it has a codec of its own."""
    return import_module(f"kpybroker.handlers.{api.API_KEYS[api_key].module}")
