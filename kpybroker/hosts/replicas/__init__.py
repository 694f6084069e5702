"""The partitions that this node holds, and its role in each; the job of Kafka's ReplicaManager."""
