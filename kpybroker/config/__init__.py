"""Every config of Kafka's broker, topics, groups and client metrics: what it is, what was set, what clients are told.

Nothing here looks at a clock or a socket; ``broker`` reads one file, everything else is pure.
"""
