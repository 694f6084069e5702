"""Compaction: only the newest record of every key is kept (Kafka's Cleaner).

The owner of the log picks the logs that are worth it, and swaps in the results. The work in between needs only files
(:mod:`kpystorage.compaction.task`), so it may run in another process.
"""
