"""Every config of Kafka's broker, topics, groups and client metrics: its definition, its present value, and how clients
see it.

Nothing here reads a clock or a socket; ``broker`` reads one file, everything else is pure.
"""
