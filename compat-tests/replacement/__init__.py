"""A live cluster of Apache Kafka becomes one of kpybroker, node by node, and back, while clients go on."""
