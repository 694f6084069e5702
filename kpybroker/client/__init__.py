"""A Kafka client for any cluster: behind the command line, and behind what tests ask of their brokers."""
