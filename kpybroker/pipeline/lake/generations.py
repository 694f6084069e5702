"""The table of a topic: opened, made from a first sample, and continued or not for a topic that was created again."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from kpybroker.machines.lake.coverage import LaneStep
from kpybroker.machines.lake.naming import NamingRule
from kpybroker.pipeline.lake.errors import LakeError, TableChanged
from kpybroker.pipeline.lake.tables import DEAD_LETTERS, LakeTable, Origin
from kpybroker.pipeline.lake.target import Target
from kpybroker.pipeline.lake.values import Values, raw_of
from kpybroker.pipeline.lake.writing import SourceTopic

SAMPLE_OFFSETS = 10_000
SAMPLE_BYTES = 32 * 1024 * 1024


class WriteMode(NamedTuple):
    """The manner of writing that a user asks for; None for the table's own."""

    mode: str | None = None
    values: str | None = None
    new_generation: bool = False
    """Whether a topic that was deleted and created again is written behind the old one."""
    partition_by: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """The columns of `tables.EXTRA` that a new table has."""


def __getattr__(name: str) -> type[WriteMode]:
    """Earlier releases called `WriteMode` so."""
    if name == "Wish":
        return WriteMode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def origin_for(found: Origin | None, write_mode: WriteMode, topic: str, topic_id: str, name: str) -> Origin:
    """The origin of a table from now on. LakeError if it cannot be written like this."""
    if found is None:
        raise TableChanged(f"table {name} was not made by kpybroker lake; choose another name")
    if found.topic != topic:
        raise LakeError(f"table {name} has topic {found.topic}, not {topic}")
    for option, now, wanted in (("--mode", found.mode, write_mode.mode), ("--values", found.values, write_mode.values)):
        if wanted is not None and wanted != now:
            raise LakeError(f"table {name} was made with {option} {now}, and stays so")
    if topic_id in found.topic_ids:
        if topic_id != found.topic_ids[-1]:
            raise TableChanged(f"table {name} has a newer generation of topic {topic} already")
        return found
    if not write_mode.new_generation:
        raise LakeError(
            f"topic {topic} was deleted and created again since table {name} was written; "
            "--new-generation writes it behind the old one"
        )
    return found._replace(topic_ids=(*found.topic_ids, topic_id))


def opened(
    target: Target,
    source: SourceTopic,
    topic_id: str,
    write_mode: WriteMode,
    values: Callable[[str, NamingRule], Values],
) -> LakeTable:
    """The table of a topic, made if there is none. ``values`` gives the format of a name and a rule. LakeError."""
    table = target.open()
    if table is None:
        origin = Origin(source.name, (topic_id,), write_mode.mode or "append", write_mode.values or "bytes")
        schema = values(origin.values, target.rule).first_schema(sample(source, topic_id))
        return target.create(schema, origin, write_mode.partition_by)
    if missing := sorted({*write_mode.extra} - {*table.schema().names}):
        raise LakeError(f"table {table.name} was made without column {missing[0]}, and stays so")
    found = table.origin()
    if found is None and table.covered(topic_id).coverage:
        found = _origin_again(table.name, write_mode, source.name, topic_id)
    origin = origin_for(found, write_mode, source.name, topic_id, table.name)
    if origin != found or not table.is_described():
        table.set_origin(origin)
    return table


def _origin_again(name: str, write_mode: WriteMode, topic: str, topic_id: str) -> Origin:
    """The origin of a table that has this topic's offsets, and none of whose versions says how it was written."""
    if write_mode.mode is None or write_mode.values is None:
        raise LakeError(
            f"table {name} has lost how it was made; --mode and --values, as they were given first, write it down again"
        )
    return Origin(topic, (topic_id,), write_mode.mode, write_mode.values)


def dead_letters_of(target: Target, origin: Origin) -> LakeTable:
    """The table of dead letters, made if there is none."""
    place = target.dead_letters()
    return place.open() or place.create(DEAD_LETTERS, origin._replace(mode="append", values="bytes"))


def sample(source: SourceTopic, topic_id: str) -> pa.Table:
    """The first records of each partition that have a value, from which columns are inferred."""
    starts, ends = source.starts(), source.ends()
    each = max(SAMPLE_OFFSETS // max(len(starts), 1), 1)
    steps = [
        LaneStep(partition, 0, start, min(start + each, ends[partition]))
        for partition, start in starts.items()
        if ends[partition] > start
    ]
    records, _ = source.read(steps, SAMPLE_BYTES)
    raw = raw_of(records, topic_id)
    return raw.filter(raw["value"].is_valid())
