"""The APIs of a listener in ZooKeeper mode: those of Kafka 3.9.2 (recorded from ApiVersions), with its newest versions.

Versions older than the oldest here are those that Kafka 4 no longer serves; this broker does not serve them either.
"""

from collections.abc import Mapping
from typing import Final

from kpywire import api

NEWEST: Final[Mapping[int, int]] = {
    0: 11, 1: 17, 2: 9, 3: 12, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 5, 16: 5, 17: 1, 18: 4, 19: 7, 20: 6,
    21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 4, 27: 1, 28: 4, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2,
    37: 3, 38: 3, 39: 2, 40: 2, 41: 3, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 56: 3,
    57: 1, 58: 0, 60: 1, 61: 0, 65: 0, 66: 1, 67: 0, 68: 0, 69: 0,
}  # fmt: skip
"""The newest version of each API key, without the requests of the controller."""
FROM_THE_CONTROLLER: Final[Mapping[int, tuple[int, int]]] = {
    api.LEADER_AND_ISR: (5, 7),
    api.STOP_REPLICA: (3, 4),
    api.UPDATE_METADATA: (7, 8),
    api.CONTROLLED_SHUTDOWN: (0, 3),
}
"""The versions that controllers of Kafka 2.8 to 3.9 send: those with topic ids and with an epoch for each partition."""
ONLY_ON_THE_CONTROLLER: Final = frozenset(
    {
        api.CREATE_TOPICS,
        api.DELETE_TOPICS,
        api.CREATE_PARTITIONS,
        api.ELECT_LEADERS,
        api.ALTER_PARTITION_REASSIGNMENTS,
        api.LIST_PARTITION_REASSIGNMENTS,
        api.UPDATE_FEATURES,
        api.ALTER_USER_SCRAM_CREDENTIALS,
        api.ALTER_PARTITION,
        api.ALLOCATE_PRODUCER_IDS,
        api.CONTROLLED_SHUTDOWN,
    }
)
"""The APIs that every other broker answers with NOT_CONTROLLER. Clients find the controller by Metadata."""

ASKED_FIRST_FOR_THE_CONTROLLER: Final = frozenset(
    {
        api.CREATE_TOPICS,
        api.DELETE_TOPICS,
        api.CREATE_PARTITIONS,
        api.ALTER_USER_SCRAM_CREDENTIALS,
    }
)
"""The APIs that get NOT_CONTROLLER whatever the permissions of the client (``KafkaApis``)."""


def versions(served: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The versions in ZooKeeper mode. ``served`` are the ones of the handlers."""
    found = dict(FROM_THE_CONTROLLER)
    for key, newest in NEWEST.items():
        known = served.get(key) or _known(key)
        if known is not None and known[0] <= newest:
            found[key] = known[0], min(known[1], newest)
    return found


def _known(key: int) -> tuple[int, int] | None:
    """The versions of an API that is only answered with an error here, and not served in KRaft mode by brokers."""
    entry = api.API_KEYS.get(key) if key in ONLY_ON_THE_CONTROLLER else None
    return None if entry is None else (entry.min_version, entry.max_version)
