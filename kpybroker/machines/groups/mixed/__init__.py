"""Groups with members of both protocols: classic members of a consumer group, as in a rolling upgrade (KIP-848)."""
