"""Frames whose topic-partitions have one task each, so that tasks can write them under one transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StringType, StructType

from kpybroker.pipeline.sink.connecting import client_of
from kpybroker.pipeline.sink.options import sink_options
from kpybroker.pipeline.sink.packing import Chooser
from kpybroker.spark.sink_columns import BY_PARTITION, columns_of
from kpybroker.spark.sink_ways import partition_count


def by_partition(frame: DataFrame, options: Mapping[str, str], tasks: int | None = None) -> DataFrame:
    """The frame with its topic and partition in columns, and with all rows of a partition in one task.

    ``options`` are those of the sink, ``tasks`` their number, Spark's own by default. Raises BadOption.
    """
    chosen = sink_options(options)
    columns = columns_of(frame.schema, chosen.topic)
    kept = [field for field in frame.schema.fields if field.name.lower() not in ("topic", "partition")]
    schema = StructType(list(kept)).add("topic", StringType()).add("partition", IntegerType())
    names = [field.name for field in kept]

    def add_places(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        with client_of(chosen) as client:
            chooser = Chooser(lambda topic: partition_count(client, topic))
            for batch in batches:
                chooser.turn += 1
                spots = [chooser.spot(row) for row in columns.rows([batch])]
                arrays: list[Any] = [batch.column(name) for name in names]
                arrays.append(pa.array([spot.topic for spot in spots], pa.string()))
                arrays.append(pa.array([spot.partition for spot in spots], pa.int32()))
                yield pa.RecordBatch.from_arrays(arrays, names=[*names, "topic", "partition"])

    placed = frame.mapInArrow(add_places, schema)
    places = ["topic", "partition"]
    shuffled = placed.repartition(*places) if tasks is None else placed.repartition(tasks, *places)
    return shuffled.withMetadata("partition", {BY_PARTITION: True})
