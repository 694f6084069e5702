"""A pipeline around the broker, live: the flights into windows, lake tables and a report, all checked against the CSV.

Producers send the flights while Spark reads them with ``format("kpybroker")``, sums them up by day and airport, and
writes the sums exactly once into a second topic. At the same time a Delta table follows the flights. Then the sums go
into an Iceberg table, DuckDB queries the Delta table, both tables are compared with their topics, and all of the
broker's data is audited. Nothing comes from Maven.
"""

FLIGHTS_TOPIC = "flights"
DAILY_TOPIC = "flights-by-day"
