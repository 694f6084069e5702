"""Groups of the kind that this broker does not serve, found in a log that Apache Kafka wrote: they are only kept."""
