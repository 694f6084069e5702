"""Connections: they read bytes, pass frames to the dispatcher and send replies in order. No Kafka logic but frames."""
