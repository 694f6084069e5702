"""For each API the requests that lead to every answer it can give, good or bad, at one version.

Each path is a few requests that a client could have sent; `sequences` plays them at every version that is served. An
API without paths fails `test_differential`, so a new one cannot be forgotten. What they reach is held by
``expected/error_paths.txt``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from differential import (
    admin_paths,
    consumer_group_paths,
    group_paths,
    record_paths,
    share_group_paths,
    share_paths,
    streams_group_paths,
    telemetry_paths,
    transaction_paths,
)
from differential.any_steps import harmless, ordinary, versions_of
from differential.steps import Call, Hangup, Pause, Step
from differential.topic_steps import ADMIN
from differential.world import call
from kpybroker.requests.handlers import served_versions
from kpywire import api
from support.raw_requests import creation, topic_named

Paths = Callable[[int], Iterable[Any]]
"""By version: requests, and steps where somebody in particular sends them."""

PATHS: Mapping[int, Paths] = {
    **admin_paths.PATHS,
    **record_paths.PATHS,
    **consumer_group_paths.PATHS,
    **streams_group_paths.PATHS,
    **group_paths.PATHS,
    **telemetry_paths.PATHS,
    **transaction_paths.PATHS,
    **share_group_paths.PATHS,
    **share_paths.PATHS,
}

TOPICS: Mapping[str, Mapping[str, str | None]] = {
    "~t0": {},
    "~compacted": {"cleanup.policy": "compact"},
    "~small": {"max.message.bytes": "300"},
    "~clock": {"message.timestamp.type": "LogAppendTime"},
    "~packed": {"compression.type": "zstd"},
    "~alone": {"min.insync.replicas": "2"},
    "~segments": {"segment.bytes": "1048576", "max.message.bytes": "3000000"},
}
"""The topics that exist before a path begins, each with one partition."""


def beginning() -> list[Step]:
    """Creates `TOPICS`."""
    return [call(ADMIN, 7, creation(*(topic_named(name, configs=configs) for name, configs in TOPICS.items())))]


def sequence(key: int) -> list[Step]:
    """An ordinary request of an API and its paths, at every version."""
    steps = beginning()
    for version in versions_of(key):
        steps.append(harmless("x", key, version, ordinary(key, version, "~t0")))
        steps += [
            each if isinstance(each, (Call, Hangup, Pause)) else harmless("e", key, version, each)
            for each in PATHS[key](version)
        ]
    return steps


def first_of_its_paths(key: int, version: int) -> Any:
    """The first request of an API in its paths, which an ordinary client could send too; None without paths."""
    steps = PATHS[key](version) if key in PATHS else ()
    requests = (each.request if isinstance(each, Call) else each for each in steps)
    return next((each for each in requests if getattr(each, "KEY", None) == key), None)


def named_sequences() -> dict[str, list[Step]]:
    """By API, of all that is served and has paths; and of what no single API tells."""
    found = {api.API_KEYS[key].name: sequence(key) for key in served_versions() if key in PATHS}
    found["clients that die"] = [*beginning(), *group_paths.clients_that_die()]
    found["whole transactions"] = [*beginning(), *transaction_paths.whole_transactions()]
    return found
