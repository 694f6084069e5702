"""kpybroker: an Apache Kafka broker in Python."""

__version__ = "0.2.0.dev3"
