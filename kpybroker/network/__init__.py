"""Requests of this node to others, over connections of its own (what Kafka's NetworkClient is to a broker)."""
