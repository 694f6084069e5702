"""Kafka's log on disk: record batches to files and back. Knows record batches, not requests."""
