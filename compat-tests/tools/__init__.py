"""Command lines and consoles: Kafka's tools, kpybroker's, and programs of others."""
