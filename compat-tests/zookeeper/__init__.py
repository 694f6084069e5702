"""Brokers and controllers in ZooKeeper mode, and the migration to KRaft."""
