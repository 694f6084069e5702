"""Tiered storage (KIP-405), the part that decides: pure, time in, effects out.

It knows which segments a store has and in which state, which of them count for a leader, what is copied next, what may
go from the disk and from the store, how a replica begins in the middle of a log, and which objects belong to nothing
(Kafka: ``RemoteLogManager``, ``RemoteLogMetadataCache``, ``TierStateMachine``). Not here: the records' bytes
(``kpywire``), the objects' bytes (``kpystorage``), stores, files and clocks.
"""
