"""The znodes of a Kafka cluster: their paths, and their contents as Kafka 3.9 writes them (Kafka's ``ZkData``). Pure.

One module for each part of the tree. Each kind of znode is a value with ``encode`` and ``decode``. The keys of a JSON
object stand in the order in which Kafka 3.9 writes them; readers do not depend on it, and they ignore unknown keys.
"""
