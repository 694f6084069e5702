"""Share groups on the leaders of their partitions (KIP-932): ShareFetch and ShareAcknowledge.

(Kafka: ``SharePartitionManager``.) `kpybroker.machines.share` decides who gets which records. Here a share partition
meets its log, the clock, the share coordinator that stores its state, and the requests that wait for it.
"""
