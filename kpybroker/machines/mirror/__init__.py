"""Mirrors of topics of another cluster, with equal offsets: which topics, and how their partitions are fed. Pure."""
