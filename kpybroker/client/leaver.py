"""What all members of groups have in common: a command that ends makes them leave."""

from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.errors import KafkaError


class Leaver:
    """A member of ``group``."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group

    def forget(self) -> None:
        """Forget what was finished and not yet reported: it did not reach the output."""
        raise NotImplementedError

    def leave(self) -> None:
        """Report what was finished and leave. Raises KafkaError, Unreachable."""
        raise NotImplementedError

    def leave_in_haste(self) -> bool:
        """Call `leave` when another error has already ended the command. Return whether it worked."""
        if self.client.contact is not None and self.client.contact.is_lost:
            self.client.hurry(0.0)
        try:
            self.leave()
        except (KafkaError, Unreachable):
            return False
        return True
