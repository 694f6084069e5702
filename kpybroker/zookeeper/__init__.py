"""Kafka in ZooKeeper mode, as Apache Kafka 3.9 runs it.

Nothing here runs in a KRaft cluster.
"""
