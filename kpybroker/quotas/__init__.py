"""Client quotas: which one counts for a client, how fast the client is, and how long it has to wait. Time is an argument."""
