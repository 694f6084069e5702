"""The shell around the controller of `kpybroker.zookeeper.controller`: its session, its queue, and its requests."""
