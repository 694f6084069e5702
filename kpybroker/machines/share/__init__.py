"""Share partitions: the records that a share group has in hand, and who may have which (KIP-932). Pure.

(Kafka: ``SharePartition``.) The leader of a partition keeps one `partition.SharePartition` for each group that reads
it. Time is given to it, and what has to be stored comes back as a value: the owner writes it to the share coordinator
(:mod:`kpybroker.machines.share_coordinator`) and reports how that ended.

The owner is `kpybroker.requests.serving.share`. Not here: reading records, waiting.
"""
