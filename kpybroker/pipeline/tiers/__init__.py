"""The store of a tiered cluster from outside its brokers: which copies hold which offsets, and their batches."""
