"""The controller: turns requests into metadata records (Kafka's ``QuorumController`` and its control managers).

One module per concern. A decider is a function ``(state, request, now_ms) -> (records, response)``: it reads the
state, never changes what is durable in it, and raises :class:`~kpybroker.machines.errors.KafkaError` to refuse.
Pure: the log, the network and elections are around it, in `kpybroker.hosts.quorum`.
"""
