"""The one error of decoding."""


class Malformed(ValueError):
    """Bytes that are not what Kafka's format says they are: cut off, contradictory, or with a length that lies."""
