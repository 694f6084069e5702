"""The end of every member of a group: the command ends, and the member leaves."""

from abc import ABC, abstractmethod

from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError


class Leaver(ABC):
    """A member of ``group``."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group

    @abstractmethod
    def forget(self) -> None:
        """Forget what was finished and not yet reported: it did not reach the output."""

    @abstractmethod
    def leave(self) -> None:
        """Report what was finished and leave. Raises KafkaError, Unreachable."""

    def leave_in_haste(self) -> bool:
        """Call `leave` when another error has already ended the command. Return whether it worked."""
        if self.client.contact is not None and self.client.contact.is_lost:
            self.client.hurry(0.0)
        try:
            self.leave()
        except (KafkaError, Unreachable):
            return False
        return True
