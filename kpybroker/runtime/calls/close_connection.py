"""The exception that ends a connection whose peer broke the protocol."""


class CloseConnection(Exception):
    """The peer broke the protocol: its connection is closed, and this line is logged. Kafka does the same."""
