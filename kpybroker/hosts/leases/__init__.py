"""Leases: a program on the same machine, or on the same volume, reads the files of logs without asking for each byte.

It asks on the second port for a lease on partitions, and gets a manifest: the committed ends of each, from one moment,
and the files that hold the records. These files stay until the lease ends, whatever retention and compaction do.
"""
