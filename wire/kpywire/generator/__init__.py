"""Writes the declarations of this package from the facts in Apache Kafka's jars: ``python -m kpywire.generator JARS``.

Not needed at run time. Invariant: the same jars give the same files, byte for byte.
"""
