"""Spark reads and writes Kafka topics through PySpark: ``format("kpybroker")``, without Maven.

It needs the extra ``spark``. `KpybrokerSource` is found by its name through the module ``pyspark_kpybroker``, or
registered with ``spark.dataSource.register``.
"""

from kpybroker.spark.source import KpybrokerSource

__all__ = ["KpybrokerSource"]
