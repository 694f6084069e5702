"""The feature ``kraft.version`` as the controller sees it: the quorum keeps it, among its own control records."""

from typing import Protocol


class KRaftVersion(Protocol):
    """The level of ``kraft.version`` (Kafka's ``KRaftVersionAccessor``)."""

    @property
    def level(self) -> int:
        """The finalised level."""

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """Raise it in the quorum's log, or only check whether that would work. Raises KafkaError."""
