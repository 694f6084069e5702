"""The tree of a cluster in ZooKeeper, shown and explained. Nothing is ever written."""
