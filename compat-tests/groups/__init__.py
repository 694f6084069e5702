"""Groups of every kind: requests by hand, and members of several clients."""
