"""Fetch sessions: the partitions that a client reads, and which of them have something new for it (KIP-227). Pure."""
