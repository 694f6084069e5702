"""The coordinator shards on the partitions that this node leads: loading, inputs and end (Kafka:
``CoordinatorRuntime``).

A shard is one pure machine on one partition of an internal topic. It is loaded in slices when this node becomes the
partition's leader, takes inputs through its journal, and is dropped when the leadership or the log directory is lost.
"""
