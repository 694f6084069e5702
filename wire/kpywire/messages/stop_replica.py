"""StopReplica: API key 5."""

from __future__ import annotations

from kpywire.schema import message


@message(key=5, versions="none")
class StopReplicaRequest:
    """Removed in Apache Kafka 4.0."""


@message(key=5, versions="none")
class StopReplicaResponse:
    """Removed in Apache Kafka 4.0."""
