"""Transactions: requests by hand, clients, and exactly once through kills."""
