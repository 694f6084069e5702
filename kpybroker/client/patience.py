"""Patience with brokers that are away while records are read round after round."""

import math
import time

from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


class Patience:
    """Decides after each round whether to go on. ``limit_s`` is how long brokers may be away, None for the client's
    own patience.

    With endless patience, a round in which no broker could be asked is one without records.
    """

    def __init__(self, client: Client, limit_s: float | None = None) -> None:
        self.client = client
        self.trouble: KafkaError | Unreachable | None = None
        """The error of the last round, which the next one retries."""
        self._limit_s = client.settings.api_timeout_s if limit_s is None else limit_s
        self._since_s = 0.0
        self._pause_s = 0.0

    @property
    def is_endless(self) -> bool:
        return math.isinf(self._limit_s)

    def passing(self, error: KafkaError | Unreachable) -> KafkaError | Unreachable:
        """The error, if it may pass. Raises it if not."""
        is_corrupt = isinstance(error, KafkaError) and error.code == error_codes.CORRUPT_MESSAGE
        if is_corrupt or not self.client.may_pass(error):
            raise error
        return error

    def settle(self, trouble: KafkaError | Unreachable | None) -> None:
        """End a round: report its error, and wait a moment, or give up."""
        before, self.trouble = self.trouble, trouble
        contact = self.client.contact
        if trouble is None:
            self._pause_s = 0.0
            if contact is not None:
                contact.back()
            return
        now_s = time.monotonic()
        if before is None:
            self._since_s = now_s
        elif now_s - self._since_s > self._limit_s:
            raise trouble
        if contact is not None:
            contact.lost(trouble)
        settings = self.client.settings
        self._pause_s = min(max(self._pause_s * 2, settings.backoff_s), settings.backoff_max_s)
        time.sleep(self._pause_s)
        self.client.forget()
