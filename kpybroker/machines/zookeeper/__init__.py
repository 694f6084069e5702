"""The decisions of ZooKeeper mode: the tree of znodes, its controller, the migration to KRaft."""
