"""ControlledShutdown: API key 7."""

from __future__ import annotations

from kpywire.schema import message


@message(key=7, versions="none")
class ControlledShutdownRequest:
    """Removed in Apache Kafka 4.0."""


@message(key=7, versions="none")
class ControlledShutdownResponse:
    """Removed in Apache Kafka 4.0."""
