"""Several nodes on this machine, each a process of its own: laid out in one directory, formatted together, run.

For ``kpybroker start --brokers`` and for clusters in tests. Nothing here speaks Kafka's protocol.
"""
