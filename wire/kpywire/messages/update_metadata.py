"""UpdateMetadata: API key 6."""

from __future__ import annotations

from kpywire.schema import message


@message(key=6, versions="none")
class UpdateMetadataRequest:
    """Removed in Apache Kafka 4.0."""


@message(key=6, versions="none")
class UpdateMetadataResponse:
    """Removed in Apache Kafka 4.0."""
