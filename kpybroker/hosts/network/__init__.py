"""Requests of this node to others, over its own connections (the counterpart of Kafka's NetworkClient)."""
