"""A sink that writes rows into topics, exactly once: what each side of a distributed job does. It knows no Spark."""
