"""The data source ``kpybroker`` of PySpark: the same rows and options as Spark's Kafka source."""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.options import for_batch, for_stream, read_options
from kpybroker.pipeline.scan.connecting import client_of, warnings_of
from kpybroker.spark.one_line import one_line, warn
from kpybroker.spark.schema import ddl
from kpybroker.spark.zip_directories import keep_zip_directories


class KpybrokerSource(DataSource):
    """``format("kpybroker")`` of ``spark.read``, ``readStream``, ``write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        return "kpybroker"

    def schema(self) -> str:
        keep_zip_directories()
        with one_line():
            options = read_options(self.options)
            client_of(options)
            warn(warnings_of(options))
            return ddl(options.wanted.columns)

    def reader(self, schema: StructType) -> Any:
        from kpybroker.spark.reader import reader_of

        keep_zip_directories()
        with one_line():
            options = read_options(self.options)
            _check_schema(schema, options.wanted.columns)
            return reader_of(for_batch(options, self.options))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        from kpybroker.spark.stream_reader import StreamReader

        with one_line():
            options = read_options(self.options)
            _check_schema(schema, options.wanted.columns)
            return StreamReader(for_stream(options, self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: FBT001 - Spark's signature
        from kpybroker.spark.sink import batch_writer

        with one_line():
            return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001, N802 - Spark's signature
        from kpybroker.spark.sink import stream_writer

        with one_line():
            return stream_writer(self.options, schema)


def _check_schema(schema: StructType, columns: tuple[str, ...]) -> None:
    """Raise BadOption if a user set a schema of their own."""
    if tuple(schema.fieldNames()) != columns:
        raise BadOption("Kafka source has a fixed schema and cannot be set with a custom one; see the option columns")
