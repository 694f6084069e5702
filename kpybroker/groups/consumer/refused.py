"""A request that a consumer group refuses, with Kafka's error and words."""


class Refused(Exception):
    """The request changes nothing."""

    def __init__(self, error_code: int, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.text = text
