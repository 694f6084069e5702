"""The cluster's metadata as every node reads it: topics, partitions, brokers, configs, features.

Records of ``__cluster_metadata`` in, dictionaries out. Not a decision maker (``kpybroker.controller`` decides) and
not a log (``kpybroker.raft`` orders the records). Pure: no clock, no file, no thread.
"""
