"""The decisions of a broker in ZooKeeper mode: requests of the controller, and znodes as records."""
