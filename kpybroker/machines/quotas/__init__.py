"""Client quotas: which one counts for a client, how fast it is, and how long it has to wait. Time is an argument."""
