"""LeaderAndIsr: API key 4."""

from __future__ import annotations

from kpywire.schema import message


@message(key=4, versions="none")
class LeaderAndIsrRequest:
    """Removed in Apache Kafka 4.0."""


@message(key=4, versions="none")
class LeaderAndIsrResponse:
    """Removed in Apache Kafka 4.0."""
