"""Compaction: of every key only the newest record stays (Kafka's Cleaner).

Picking what is worth it, and swapping in what came of it, are the log's owner's; what lies between needs only files
(:mod:`kpystorage.compaction.task`), so it may run in another process.
"""
