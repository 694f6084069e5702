"""Groups of the classic protocol (Kafka: ``ClassicGroup``): members join, their leader assigns, all sync, and show by
heartbeats that they are alive."""
