"""The shell around the controller of `kpybroker.machines.zookeeper.controller`: its session, its queue, and its
requests."""
