"""Schemas of a registry, and values that name them by Confluent's five bytes: Avro, Protobuf and JSON Schema.

The libraries behind them are optional, and each module imports its own. Not here: the columns of a table (``lake``),
and how a value is shown (``console``).

Invariant: bytes that are not of their schema raise an error; they are never read as something else.
"""
