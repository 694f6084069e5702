"""Spark's sources and sinks."""
