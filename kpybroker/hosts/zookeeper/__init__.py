"""ZooKeeper mode: Kafka's metadata in ZooKeeper, as Kafka 3.9 keeps it.

Every package here is loaded only by a node whose configuration names ``zookeeper.connect``.
"""
