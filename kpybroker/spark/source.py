"""The data source ``kpybroker`` of PySpark: the same rows and options as Spark's Kafka source."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.scan import reading
from kpybroker.scan.fetching import FetchTransport
from kpybroker.scan.ranges import Range, Wanted

SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


class Task(InputPartition):
    """A range that one task reads."""

    def __init__(self, part: Range) -> None:
        super().__init__(part)


class KpybrokerSource(DataSource):
    """``spark.read.format("kpybroker")``."""

    @classmethod
    def name(cls) -> str:
        return "kpybroker"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> "Reader":  # noqa: ARG002 - Spark's signature
        return Reader(self.options["kafka.bootstrap.servers"], self.options["subscribe"].split(","))


class Reader(DataSourceReader):
    """Reads all records of some topics."""

    def __init__(self, servers: str, topics: list[str]) -> None:
        self._servers = servers
        self._topics = topics

    def partitions(self) -> Sequence[Task]:
        with Client(self._servers) as client:
            spots = {
                Spot(name, part.partition_index): topic.topic_id
                for name in self._topics
                for topic in [client.topic(name)]
                for part in topic.partitions
            }
            starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
            ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
        return [
            Task(Range(spot.topic, topic_id, spot.partition, starts[spot], ends[spot]))
            for spot, topic_id in spots.items()
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        transport = FetchTransport(Client(self._servers))
        try:
            yield from reading.rows(transport, partition.value, Wanted())
        finally:
            transport.close()
