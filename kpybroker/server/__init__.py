"""Connections: bytes in, frames to the dispatcher, replies out in order. No Kafka logic beyond the frame."""
