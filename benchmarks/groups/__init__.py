"""The cost of groups for the event loop: loading a million commits, and a rebalance of a group of a thousand."""
