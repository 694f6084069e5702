"""Kafka Streams and Kafka Connect."""
