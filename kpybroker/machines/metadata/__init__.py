"""The cluster's metadata as every node reads it: topics, partitions, brokers, configs, features.

Records of ``__cluster_metadata`` go in, dictionaries come out. Decisions are made in ``kpybroker.machines.controller``,
and ``kpybroker.machines.raft`` orders the records. Pure: no clock, no file, no thread.
"""
