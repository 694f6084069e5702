"""The listener to outages that a client may have, such as a command with a user in front of it."""

from typing import Protocol

from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError


class Outages(Protocol):
    """A listener to outages: with one, requests are tried again until the cluster is back."""

    @property
    def is_lost(self) -> bool:
        """Whether the cluster is away now."""

    def lost(self, error: KafkaError | Unreachable) -> None:
        """Hear that an attempt failed, and will be repeated."""

    def silent(self, reason: str) -> None:
        """Hear that an answer is overdue, and still waited for."""

    def back(self) -> None:
        """Hear that an attempt succeeded."""
