"""Kafka's requests and responses, one module for each API key, and the data its own records and headers hold.

Written by `kpywire.generator`. Modules are imported when `kpywire.api` is asked for a class.
"""
