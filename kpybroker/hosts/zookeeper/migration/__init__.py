"""The shell around the driver of `kpybroker.machines.zookeeper.migration`: its session with ZooKeeper, its time, its
node."""
