"""Backups of a cluster: the bytes that the store lacks, the cut that a run promises, the metadata of a restore."""
