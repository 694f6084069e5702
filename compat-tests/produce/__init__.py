"""Writing, and what becomes of records: retention, compaction, kills."""
