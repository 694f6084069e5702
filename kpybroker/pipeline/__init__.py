"""From topics to tables and to backups: scans, the exactly-once sink, the lake, the audit, a demonstration of them."""
