"""The shell around the driver of `kpybroker.zookeeper.migration`: its session with ZooKeeper, its time, its node."""
