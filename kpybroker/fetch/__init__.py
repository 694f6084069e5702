"""Fetch sessions: which partitions a client reads, and which of them have something new for it (KIP-227). Pure."""
