"""Committed offsets of groups of every kind (Kafka: ``OffsetMetadataManager``): commits, also those of transactions,
fetches, deletions and the expiry. Whether a member may commit is up to the group's kind."""
