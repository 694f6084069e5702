"""The one way a decider refuses."""

from kpywire import error_codes


class ApiError(Exception):
    """An error for the client: its code, and a message that may be null."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @classmethod
    def plain(cls, code: int) -> "ApiError":
        """The error with Kafka's standard message for its code."""
        return cls(code, error_codes.message(code))
