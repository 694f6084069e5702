"""The suites themselves: their targets, and a broker that runs already."""
