"""Values of records by their schemas, for the pages. A process beside the loop asks the registry and decodes.

A page waits for it for a bounded time, and is shown without what has not come by then. A registry that was away is left
alone for a while, so that pages which are shown again and again do not wait for it each time.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.client.schemas.registry import names_schema
from kpybroker.machines.console.content import ContentBySchema
from kpybroker.machines.console.record_tasks import FoundRecord
from kpybroker.monitoring.console.schema_tasks import (
    Answer,
    DecodedValue,
    DecodingEnded,
    RegistryAddress,
    SchemaTask,
    SchemaTrouble,
)
from kpybroker.runtime.io.scheduler import Scheduler, Timer

if TYPE_CHECKING:
    from kpybroker.runtime.io.worker import Worker, WorkerDied

MODULE: Final = "kpybroker.monitoring.console.schema_process"
PATIENCE_S: Final = 3.0
"""The longest that a page waits."""
PAUSE_MS: Final = 10_000
"""The time for which a registry that was away or slow is left alone."""
IDLE_MS: Final = 30_000
"""The process ends this long after the last look."""


class DecodedPage(NamedTuple):
    """The values of a page by their schemas."""

    values: Mapping[bytes, ContentBySchema]
    notes: tuple[str, ...]
    """Lines about all values."""


NOTHING: Final = DecodedPage({}, ())


class Decoding:
    """Decodes by the schemas of one registry, if there is one."""

    def __init__(self, scheduler: Scheduler, address: RegistryAddress | None) -> None:
        self._scheduler = scheduler
        self._address = address
        self._turn = asyncio.Lock()
        self._worker: Worker | None = None
        self._timer: Timer | None = None
        self._rests_until_ms = 0.0
        self._why = ""

    async def of(self, records: Iterable[FoundRecord]) -> DecodedPage:
        """The keys and values of these records, as far as they come in time."""
        wanted = tuple(dict.fromkeys(part for each in records for part in _whole_parts(each) if names_schema(part)))
        if self._address is None or not wanted:
            return NOTHING
        if self._scheduler.monotonic_ms() < self._rests_until_ms:
            return DecodedPage({}, (self._why,))
        values: dict[bytes, ContentBySchema] = {}
        notes: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE_S), self._turn:
                await self._ask(SchemaTask(self._address, wanted), values, notes)
        except TimeoutError:
            self._rest(f"schema registry {self._address.url} or its values took more than {PATIENCE_S:g} s")
            notes.append(self._why)
        return DecodedPage(values, tuple(dict.fromkeys(notes)))

    async def _ask(self, task: SchemaTask, values: dict[bytes, ContentBySchema], notes: list[str]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: "Answer | WorkerDied") -> None:
            if done.done():
                return
            match answer:
                case DecodedValue():
                    values[task.values[answer.place]] = answer.content
                case SchemaTrouble():
                    notes.append(answer.line)
                    if answer.is_away:
                        self._rest(answer.line)
                case DecodingEnded(""):
                    done.set_result(None)
                case _:
                    reason = answer.reason if isinstance(answer, DecodingEnded) else str(answer)
                    notes.append(f"values cannot be decoded: {reason}")
                    self._end()
                    done.set_result(None)

        worker = self._started()
        worker.ask(task, on_answer)
        try:
            await done
        except asyncio.CancelledError:
            self._end()
            raise
        self._timer = self._scheduler.call_later(IDLE_MS, self._end)

    def _rest(self, why: str) -> None:
        self._rests_until_ms = self._scheduler.monotonic_ms() + PAUSE_MS
        self._why = why

    def _started(self) -> "Worker":
        from kpybroker.runtime.io.worker import Worker

        if self._timer is not None:
            self._timer.cancel()
        if self._worker is None:
            self._worker = Worker(self._scheduler, MODULE, _is_last)
        return self._worker

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        """End the process."""
        if self._timer is not None:
            self._timer.cancel()
        self._end()


def _whole_parts(record: FoundRecord) -> Iterable[bytes]:
    for part, size in ((record.key, record.key_bytes), (record.value, record.value_bytes)):
        if part is not None and len(part) == size:
            yield part


def _is_last(answer: Any) -> bool:
    return isinstance(answer, DecodingEnded)
