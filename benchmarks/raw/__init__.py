"""Kafka's protocol as precomputed bytes, and a load generator that sends them faster than any broker answers."""
