"""Which coordinator shard lives on which led partition: load it, feed it, drop it (Kafka: ``CoordinatorRuntime``).

A shard is one pure machine on one partition of an internal topic. It is loaded, in slices, when this node comes to
lead the partition, takes inputs through its journal, and is dropped when the leadership or the log directory is lost.
"""
