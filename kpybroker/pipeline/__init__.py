"""From topics to tables: scans, the exactly-once sink, the lake, the audit, and a demonstration of all of them."""
