"""Backups of a cluster in a directory or a bucket, and log directories that are restored from them."""
