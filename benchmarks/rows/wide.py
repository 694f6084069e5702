"""Readers of a thousand partitions."""

import time
from statistics import median

from benchmarks.raw import many
from benchmarks.raw.asking import Conversation
from benchmarks.rows.consuming import ConsumeConfluent
from benchmarks.rows.everywhere import BATCH_BYTES, write_everywhere
from benchmarks.rows.requesting import CPU_PER_REQUEST, P50, P99
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import Side


class FetchMany(Row):
    """One consumer of 1 000 partitions with a batch of 213 B in each, one Fetch after the other."""

    key = "fetch-many"
    topic = "wide"
    partitions = 1000
    offset = 0
    session = False
    figures = (CPU_PER_REQUEST, P50, P99)

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic(self.key, self.partitions)
        with Conversation(side.address) as conversation:
            write_everywhere(conversation, {topic: self.partitions})

    def play(self, side: Side) -> dict[str, float]:
        meter = Meter(side)
        with Conversation(side.address) as conversation:
            took_us = self.fetches(conversation, self.topics[side], meter)
        _, cpu_s = meter.end()
        took_us.sort()
        return {
            CPU_PER_REQUEST.name: cpu_s / len(took_us) * 1e6,
            P50.name: median(took_us),
            P99.name: took_us[len(took_us) * 99 // 100],
        }

    def fetches(self, conversation: Conversation, topic: str, meter: Meter) -> list[float]:
        """Microseconds that each took."""
        every = {topic: range(self.partitions)}
        new = (0, 0) if self.session else (0, -1)
        asking = many.fetch(every, offset=self.offset, session=new, partition_bytes=1 << 20, max_wait_ms=0)
        session_id = self.checked(conversation.ask(asking))
        epoch, took_us = 1, []
        meter.begin()
        deadline = time.perf_counter() + self.effort.load_s
        while (began := time.perf_counter()) < deadline:
            if self.session:
                now = (session_id, epoch)
                asking = many.fetch({}, offset=0, session=now, partition_bytes=1 << 20, max_wait_ms=0)
                epoch += 1
            self.checked(conversation.ask(asking))
            took_us.append((time.perf_counter() - began) * 1e6)
        return took_us

    def checked(self, answer: bytes) -> int:
        """The session's id. Raises RoundError."""
        code, session_id = many.fetched_session(answer)
        if code or self.session != bool(session_id):
            raise RoundError(f"error code {code}, session {session_id}")
        if not self.session and self.offset == 0 and len(answer) < self.partitions * BATCH_BYTES:
            raise RoundError(f"an answer of {len(answer)} bytes has not all records")
        return session_id

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class FetchAllFull(FetchMany):
    key = "fetch-full"
    title = "Fetch of 1 000 partitions without a session, a batch in each"


class FetchNothingNew(FetchMany):
    key = "fetch-empty"
    title = "Fetch of 1 000 partitions without a session, nothing new"
    offset = 1


class FetchIncremental(FetchMany):
    key = "fetch-incremental"
    title = "incremental Fetch of a session of 1 000 partitions, nothing new"
    offset = 1
    session = True


def wide_rows(effort: Effort) -> list[Row]:
    return [
        FetchAllFull(effort),
        FetchNothingNew(effort),
        FetchIncremental(effort),
        ConsumeConfluent(effort, Shape(partitions=1000)),
    ]
