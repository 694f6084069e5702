"""The topic: its id, the ends of its partitions, and its records as Arrow tables, read in parallel."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType, describe
from kpybroker.machines.lake.coverage import LaneStep
from kpybroker.machines.lake.planning import reached, tasks
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.scan.fetching import FetchTransport
from kpybroker.pipeline.scan.reading import rows
from kpybroker.pipeline.scan.transport import Transport
from kpywire.columns.schema import schema_of
from kpywire.uuid import ZERO_UUID, to_string

if TYPE_CHECKING:
    from kpybroker.pipeline.scan.old_records import OldRecords
    from kpybroker.pipeline.tiers.copied import CopiedPartitions

COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
TASK_OFFSETS: Final = 250_000

Connect = Callable[[], Client]


class LakeTopic:
    """A topic of a cluster. The clients for reading are its own; ``client`` asks for everything else."""

    def __init__(
        self,
        client: Client,
        connect: Connect,
        name: str,
        *,
        committed_only: bool = True,
        fails_on_data_loss: bool = True,
        parallel: int = 2,
        old: "OldRecords | None" = None,
    ) -> None:
        """``old`` reads what only a store has; None: brokers read it."""
        self._client = client
        self._connect = connect
        self.name = name
        self._committed_only = committed_only
        self.fails_on_data_loss = fails_on_data_loss
        self._old = old
        self._pool = ThreadPoolExecutor(parallel, "lake")
        self._idle: list[FetchTransport] = []
        self._turns = count()
        self._id = b""
        self.extra: tuple[str, ...] = ()
        """Columns that `read` gives in addition to `COLUMNS`."""

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        while self._idle:
            self._idle.pop().close()
        if self._old is not None:
            self._old.close()

    def find(self) -> str:
        """The id of the topic as it is now, as text. KafkaError if it does not exist."""
        self._client.forget()
        self._id = self._client.topic(self.name).topic_id
        if self._id == ZERO_UUID:
            raise LakeError(f"topic {self.name} has no id: the brokers are older than Kafka 2.8")
        return to_string(self._id)

    def starts(self) -> dict[int, int]:
        """The first offset of each partition."""
        return self._offsets(EARLIEST_TIMESTAMP)

    def ends(self) -> dict[int, int]:
        """The offset behind the last record of each partition, committed ones only if so wanted."""
        return self._offsets(LATEST_TIMESTAMP)

    def log_ends(self) -> dict[int, int]:
        """The offset behind the last record of each partition, committed or not."""
        return self._offsets(LATEST_TIMESTAMP, committed_only=False)

    def _offsets(self, timestamp: int, *, committed_only: bool | None = None) -> dict[int, int]:
        if committed_only is None:
            committed_only = self._committed_only
        spots = [Spot(self.name, each.partition_index) for each in self._client.topic(self.name).partitions]
        found = self._client.list_offsets(dict.fromkeys(spots, timestamp), committed_only=committed_only)
        return {spot.partition: offset for spot, offset in sorted(found.items())}

    def is_compacted(self) -> bool:
        """Whether records may disappear in the middle of the log."""
        (policy,) = describe(self._client, ConfigResource(ConfigResourceType.TOPIC, self.name), ["cleanup.policy"])
        return "compact" in (policy.value or "")

    def read(self, steps: Iterable[LaneStep], most_bytes: int) -> tuple[pa.Table, list[LaneStep]]:
        """The records of these steps, those of a partition in the order of the log, and the steps as far as they were
        read: up to twice ``most_bytes`` of records, shared by the steps as they share the offsets."""
        steps = list(steps)
        columns = COLUMNS + self.extra
        pieces = tasks(_rotated(steps, next(self._turns)), TASK_OFFSETS)
        budget = _Budget(2 * most_bytes, sum(step.offsets for step in steps))
        copied = self._copied(steps)
        found = dict(
            zip(pieces, self._pool.map(lambda piece: self._piece(piece, columns, budget, copied), pieces), strict=True)
        )
        done = reached(steps, {piece: end for piece, (_, end) in found.items()})
        ends = {(step.partition, step.lane): step.end for step in done}
        batches = [
            batch
            for piece, (records, _) in sorted(found.items(), key=lambda item: item[0])
            if piece.start < ends.get((piece.partition, piece.lane), 0)
            for batch in records
        ]
        return pa.Table.from_batches(batches, schema_of(columns)), done

    def _copied(self, steps: Iterable[LaneStep]) -> "CopiedPartitions | None":
        """The copies in the store that hold these steps."""
        return None if self._old is None else self._old.plan(self._client, [self._range(step) for step in steps])

    def _range(self, step: LaneStep) -> OffsetRange:
        return OffsetRange(self.name, self._id, step.partition, step.start, step.end)

    def _piece(
        self, piece: LaneStep, columns: tuple[str, ...], budget: "_Budget", copied: "CopiedPartitions | None"
    ) -> tuple[list[pa.RecordBatch], int]:
        """The records of a piece and how far it was read: its end, or where its part of the budget ended."""
        found: list[pa.RecordBatch] = []
        size = 0
        if budget.is_spent():
            return found, piece.start
        for batch in self._batches(piece, columns, copied):
            found.append(batch)
            size += batch.nbytes
            if budget.spend(batch.nbytes) or size >= budget.part(piece.offsets):
                return found, batch["offset"][-1].as_py() + 1
        return found, piece.end

    def batches(self, step: LaneStep, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The records of one step, in batches. LakeError."""
        return self._batches(step, columns, self._copied([step]))

    def _batches(
        self, step: LaneStep, columns: tuple[str, ...], copied: "CopiedPartitions | None"
    ) -> Iterator[pa.RecordBatch]:
        wanted = Projection(columns, self._committed_only, self.fails_on_data_loss)
        fetching = self._idle.pop() if self._idle else FetchTransport(self._connect())
        transport: Transport = fetching if self._old is None or copied is None else self._old.over(fetching, copied)
        try:
            yield from rows(transport, self._range(step), wanted)
        except ScanError as error:
            fetching.close()
            raise LakeError(str(error)) from None
        except BaseException:
            fetching.close()
            raise
        self._idle.append(fetching)


class _Budget:
    """The bytes that all pieces of a read may have together, and each by its number of offsets."""

    def __init__(self, size: int, offsets: int) -> None:
        self._left = self._size = size
        self._offsets = offsets

    def part(self, offsets: int) -> int:
        return self._size * offsets // max(self._offsets, 1)

    def spend(self, size: int) -> bool:
        """Take bytes; return whether none are left. Threads that do so at once may take a few too many."""
        self._left -= size
        return self.is_spent()

    def is_spent(self) -> bool:
        return self._left <= 0


def _rotated(steps: list[LaneStep], turn: int) -> list[LaneStep]:
    """The steps from another one on each time, so that each is the first once: the last may get no bytes."""
    first = turn % max(len(steps), 1)
    return steps[first:] + steps[:first]
