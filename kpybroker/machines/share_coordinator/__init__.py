"""The share coordinator: a pure state machine on ``__share_group_state`` under the journal's contract (KIP-932).

It keeps the delivery state of share partitions for their leaders, who write it there and read it when they become
leaders (Kafka: ``ShareCoordinatorShard``). Not here: the log below it and loading
(:mod:`kpybroker.hosts.coordinators`), which node is asked (the handlers), and what the state means: leaders decide
that.
"""
