"""The streaming reader: where a stream begins, how far the next micro-batch goes, and its tasks.

Spark 4.2 tells it the start of a micro-batch and the limit. Before 4.2 it knows the start from what it was asked last,
and takes the limits from its options.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kpybroker.machines.scan.admission import AdmissionLimits, admitted, is_due
from kpybroker.machines.scan.errors import OffsetsLost
from kpybroker.machines.scan.options import ScanOptions
from kpybroker.machines.scan.planning import tasks
from kpybroker.machines.scan.pruning import pruned
from kpybroker.machines.scan.ranges import Spot
from kpybroker.machines.scan.stream_offsets import (
    Json,
    StreamPositions,
    at_least,
    at_most,
    begin,
    from_json,
    losses,
    ranges,
    unknown,
)
from kpybroker.pipeline.scan.checkpoint import offsets_in
from kpybroker.pipeline.scan.cluster import ScannedCluster
from kpybroker.pipeline.scan.connecting import cluster_of
from kpybroker.pipeline.scan.ways import NO_WAYS, WayPlanner
from kpybroker.spark.one_line import one_line
from kpybroker.spark.read_limits import default_limit, knows_available_now, limits_of
from kpybroker.spark.task import SparkTask, read
from kpybroker.spark.worker_socket import ArrivesInTask

SIZES_AGE_S: Final = 60.0
"""How long the mean sizes of records are believed."""
BACKWARD_RETRIES: Final = 3
BACKWARD_PAUSE_S: Final = 1.0
"""An end that lies before what was read may be that of a broker that has just become leader: it is asked again."""


@knows_available_now
class StreamReader(ArrivesInTask, DataSourceStreamReader):
    """Reads topics as a stream. It lives in a process beside the driver as long as the query runs; tasks have copies
    that are never asked anything but to read."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._cluster: ScannedCluster | None = None
        self._initial: StreamPositions | None = None
        self._held: frozenset[Spot] = frozenset()
        self._position: StreamPositions | None = None
        self._latest: StreamPositions | None = None
        self._target: StreamPositions | None = None
        self._admitted_s = float("-inf")
        self._sizes: dict[Spot, float] = {}
        self._sized_s = float("-inf")
        self._planner = WayPlanner(options)
        self._ways = NO_WAYS

    def __reduce__(self) -> tuple[type["StreamReader"], tuple[ScanOptions]]:
        return StreamReader, (self._options,)

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """The positions at which a new query begins."""
        with one_line():
            return self._begin().to_json()

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:  # noqa: N802 - Spark's name
        """The end of the next micro-batch."""
        with one_line():
            begun = (self._position or self._begin()) if start is None else from_json(start)
            self._latest = self._ends(begun) if self._target is None else at_least(self._target, begun)
            latest = self._latest
            if self._held:
                latest = latest._replace(offsets={**latest.offsets, **_chosen(begun.offsets, self._held)})
                self._held = frozenset()
            self._position = self._admitted(begun, latest, limits_of(self._options, limit))
            return self._position.to_json()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """The limit that the options set; since Spark 4.2."""
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the query ends; since Spark 4.2."""
        with one_line():
            self._latest = self._target = self._ends(None)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """The ends of the partitions, for the progress of the query; since Spark 4.2."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. Before 4.2, Spark also tells with it where a query goes on after a restart."""
        with one_line():
            begun, ended = from_json(start), from_json(end)
            self._position, self._held = ended, frozenset()
            if begun == ended:
                return []
            if begun == self._initial:
                begun = at_most(begun, ended)
            firsts = self._asked.firsts(unknown(begun, ended))
            self._check(begun, ended, firsts)
            parts = pruned(ranges(begin(begun, ended, firsts), ended), self._options.wanted.filter)
            offset_bytes = self._offset_bytes(ended)
            self._give_back()
            self._ways = self._planner.ways(self._asked.client, parts, offset_bytes)
            sizes = self._ways.sizes(offset_bytes)
            return [SparkTask(each, self._ways) for each in tasks(parts, sizes, self._options.sizes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(partition, self._options, self._options.wanted)

    def commit(self, end: Json) -> None:
        """Nothing is kept for a micro-batch that has ended."""

    def _give_back(self) -> None:
        """End the leases of the micro-batch before, which Spark has finished."""
        ways, self._ways = self._ways, NO_WAYS
        ways.end()

    def stop(self) -> None:
        self._give_back()
        if self._cluster is not None:
            self._cluster.client.close()
            self._cluster = None

    def _begin(self) -> StreamPositions:
        """The positions at which a new query begins, always the same.

        Spark's checkpoint has the end of the first micro-batch and not its start. So a partition that begins at the
        end of its log, which moves, has no rows in the first one: a restart that repeats it loses none.
        """
        if self._initial is None:
            options = self._options
            ids = self._asked.partitions()
            logs = self._asked.logs(ids)
            assert options.starting is not None
            if options.checkpoint is None:
                starts = self._asked.resolved(options.starting, logs)
            else:
                known = offsets_in(options.checkpoint, {spot[0] for spot in ids})
                starts = {spot: known.get(spot, log.start) for spot, log in logs.items()}
            initial = _positions(starts, ids)
            self._check(initial, _positions({spot: log.end for spot, log in logs.items()}, ids), {})
            self._initial = initial
            self._held = frozenset(spot for spot, log in logs.items() if starts[spot] >= log.end)
        return self._initial

    @property
    def _asked(self) -> ScannedCluster:
        """The cluster, over connections that stay open."""
        if self._cluster is None:
            self._cluster = cluster_of(self._options, waits=True)
        return self._cluster

    def _ends(self, begun: StreamPositions | None) -> StreamPositions:
        """The present ends of the partitions."""
        for retries in range(BACKWARD_RETRIES, -1, -1):
            ids = self._asked.partitions()
            found = _positions(self._asked.ends(ids), ids)
            if not retries or begun is None or not _goes_back(begun, found):
                break
            time.sleep(BACKWARD_PAUSE_S)
        return found

    def _admitted(self, begun: StreamPositions, latest: StreamPositions, limits: AdmissionLimits) -> StreamPositions:
        """The end of the next micro-batch; ``begun`` if none is due."""
        firsts = self._asked.firsts(unknown(begun, latest))
        self._check(begun, latest, firsts)
        starts = begin(begun, latest, firsts)
        if self._target is not None:
            limits = limits._replace(min_offsets=None)
        waited_ms = (time.monotonic() - self._admitted_s) * 1000
        if not is_due(starts, latest.offsets, limits, waited_ms):
            return begun
        self._admitted_s = time.monotonic()
        sizes = self._offset_bytes(latest) if limits.max_bytes is not None else {}
        return latest._replace(offsets=admitted(starts, latest.offsets, limits, sizes))

    def _check(self, begun: StreamPositions, ended: StreamPositions, firsts: Mapping[Spot, int]) -> None:
        """Raise OffsetsLost for what cannot be read between two positions, unless that is allowed."""
        if self._options.wanted.fails_on_data_loss:
            loss: OffsetsLost | None = next(iter(losses(begun, ended, firsts)), None)
            if loss is not None:
                raise loss

    def _offset_bytes(self, positions: StreamPositions) -> Mapping[Spot, float]:
        """The mean size of an offset in each partition, as known lately; for an empty one the mean of all."""
        is_old = time.monotonic() - self._sized_s > SIZES_AGE_S
        if is_old or not self._sizes.keys() >= positions.offsets.keys():
            ids = self._asked.partitions()
            found = self._asked.offset_bytes(ids, self._asked.logs(ids))
            mean = sum(found.values()) / len(found) if found else 0.0
            self._sizes = {spot: found.get(spot, mean) for spot in (*ids, *positions.offsets)}
            self._sized_s = time.monotonic()
        return self._sizes


def _positions(offsets: Mapping[Spot, int], ids: Mapping[Spot, bytes]) -> StreamPositions:
    return StreamPositions(offsets, {spot[0]: topic_id for spot, topic_id in ids.items()})


def _chosen(offsets: Mapping[Spot, int], spots: Iterable[Spot]) -> dict[Spot, int]:
    return {spot: offsets[spot] for spot in spots if spot in offsets}


def _goes_back(begun: StreamPositions, found: StreamPositions) -> bool:
    """Whether a partition of the same topic ends before its start."""
    return any(
        found.offsets.get(spot, offset) < offset and found.ids.get(spot[0]) == begun.ids.get(spot[0])
        for spot, offset in begun.offsets.items()
    )
