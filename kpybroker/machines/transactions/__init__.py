"""The transaction coordinator: a pure state machine on ``__transaction_state`` under the journal's contract.

Not here: the log below it and loading (:mod:`kpybroker.hosts.coordinators`), which node is asked (the handlers), and
how markers reach the leaders of the partitions (the shell takes `events.WriteMarkers` out of the machine's sends).
"""
