"""The runtime: event loop, scheduler, calls, fairness between clients, and the HTTP server. It knows no Kafka."""
