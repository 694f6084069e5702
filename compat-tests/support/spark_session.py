"""One small Spark session with the Kafka connector, and its end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from support.spark_home import home_with_bytecode
from support.spark_versions import connector

SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUIET = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = STDERR
appender.stderr.type = Console
appender.stderr.name = STDERR
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c: %m%n
"""


@contextmanager
def small_spark(directory: Path, memory: str = "768m", jvm: str = SMALL_JVM) -> Iterator[SparkSession]:
    """A session with two cores and a small heap that works in ``directory``; its JVM ends with it.

    Raises UnavailableError when the connector for this PySpark cannot be had.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_HOME"] = str(home_with_bytecode())
    logging = directory / "log4j2.properties"
    logging.write_text(QUIET)
    java_options = f"{jvm} -Dlog4j2.configurationFile={logging.as_uri()}"
    settings = {
        **({"spark.jars": ",".join(map(str, jars))} if (jars := connector(pyspark.__version__)) else {}),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.pollingDelay": "20ms",
        "spark.sql.streaming.minBatchesToRetain": "5",
    }
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName("compatibility")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        end_jvm()


def end_jvm() -> None:
    """Stopping a session leaves its JVM to the end of this process; close its standard input, and it goes now."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
