"""A Spark query writes into a topic, exactly once, while its driver, its Python workers and the broker are killed."""
