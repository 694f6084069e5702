"""The controller of a cluster in ZooKeeper mode, as Kafka 3.9 decides (``KafkaController``). Pure.

It handles one event at a time. An event is a generator of steps: it yields operations for ZooKeeper, and goes on with
their results. Requests to brokers are collected in batches and leave when a batch ends. So every write that is under
way is explicit: the shell may lose its answer, be late with it, or end the reign in its middle.
"""
