"""The order in which connections use the event loop. Knows neither Kafka nor sockets."""
