"""The rules of the audit: what must hold between logs, replicas, transactions, groups and tables."""
