"""The exceptions that carry an error from where something is decided to where it is answered."""

from collections.abc import Sequence

from kpywire import error_codes

LONGEST_MESSAGE = 8_000
"""The longest message, in characters. A longer one quotes the client's data, and is cut to fit into a string."""


class AuthorizerNotReady(Exception):
    """The ACLs are not loaded yet, and the sender is no super user (``AuthorizerNotReadyException``).

    Kafka has no error code for it: the whole request is answered with UNKNOWN_SERVER_ERROR, and is to be sent again.
    """


class KafkaError(Exception):
    """The error ``code`` with which a request, or one topic or partition of it, is answered. ``message`` is for the
    client.

    ``record_errors``: (index of the record in its batch, message) for each record for which the batch was refused.
    """

    def __init__(self, code: int, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        if message is not None and len(message) > LONGEST_MESSAGE:
            message = message[:LONGEST_MESSAGE] + "..."
        super().__init__(message or error_codes.message(code))
        self.code = code
        self.message = message
        self.record_errors = record_errors

    def __str__(self) -> str:
        return f"{error_codes.name(self.code)}: {self.args[0]}"
