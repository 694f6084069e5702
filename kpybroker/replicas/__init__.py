"""Which partitions this node holds and in which role; the job of Kafka's ReplicaManager."""
