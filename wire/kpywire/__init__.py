"""Kafka's wire format: bytes to messages and back. Knows nothing of brokers."""
