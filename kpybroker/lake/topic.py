"""The topic: its id, the ends of its partitions, and its records as Arrow tables, read in parallel."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.config_requests import Kind, Resource, describe
from kpybroker.lake.coverage import Step
from kpybroker.lake.errors import LakeError
from kpybroker.lake.planning import tasks
from kpybroker.scan.errors import ScanError
from kpybroker.scan.fetching import FetchTransport
from kpybroker.scan.ranges import Range, Wanted
from kpybroker.scan.reading import rows
from kpywire.columns.schema import schema_of
from kpywire.uuid import ZERO_UUID, to_string

COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
TASK_OFFSETS: Final = 250_000

Connect = Callable[[], Client]


class Topic:
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
    ) -> None:
        self._client = client
        self._connect = connect
        self.name = name
        self._committed_only = committed_only
        self._fails_on_data_loss = fails_on_data_loss
        self._pool = ThreadPoolExecutor(parallel, "lake")
        self._idle: list[FetchTransport] = []
        self._id = b""
        self.extra: tuple[str, ...] = ()
        """Columns that `read` gives in addition to `COLUMNS`."""

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        while self._idle:
            self._idle.pop().close()

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

    def _offsets(self, timestamp: int) -> dict[int, int]:
        spots = [Spot(self.name, each.partition_index) for each in self._client.topic(self.name).partitions]
        found = self._client.list_offsets(dict.fromkeys(spots, timestamp), committed_only=self._committed_only)
        return {spot.partition: offset for spot, offset in sorted(found.items())}

    def is_compacted(self) -> bool:
        """Whether records may disappear in the middle of the log."""
        (policy,) = describe(self._client, Resource(Kind.TOPIC, self.name), ["cleanup.policy"])
        return "compact" in (policy.value or "")

    def read(self, steps: Iterable[Step]) -> pa.Table:
        """The records of these steps, those of a partition in the order of the log."""
        pieces = tasks(steps, TASK_OFFSETS)
        columns = COLUMNS + self.extra
        tables = list(self._pool.map(lambda step: list(self.batches(step, columns)), pieces))
        return pa.Table.from_batches([batch for table in tables for batch in table], schema_of(columns))

    def batches(self, step: Step, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The records of one step, in batches. LakeError."""
        wanted = Wanted(columns, self._committed_only, self._fails_on_data_loss)
        transport = self._idle.pop() if self._idle else FetchTransport(self._connect())
        try:
            yield from rows(transport, Range(self.name, self._id, step.partition, step.start, step.end), wanted)
        except ScanError as error:
            transport.close()
            raise LakeError(str(error)) from None
        except BaseException:
            transport.close()
            raise
        self._idle.append(transport)
