"""Creating, deleting and writing to very many partitions, by the raw protocol: what several rows begin with."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from benchmarks.raw import frames, many
from benchmarks.raw.asking import Conversation
from benchmarks.rows.row import RoundError
from benchmarks.sides import TOPIC_CONFIG

BATCH_BYTES = 213
WAIT_S = 900.0
"""On a busy disk Apache Kafka makes thirty logs a second."""
RECORDS_PER_REQUEST = 9000
"""Kafka's controller refuses a request that takes more than 10 000 records."""
PARTITIONS_PER_REQUEST = 1000
LOOK_EVERY_S = 0.002
RETRY_S = 0.02


def small_batch() -> bytes:
    return frames.batch_of_bytes(BATCH_BYTES, int(time.time() * 1000))


def named(purpose: str, count: int) -> list[str]:
    run = uuid.uuid4().hex[:8]
    return [f"{purpose}-{run}-{number}" for number in range(count)]


def until(ready: Callable[[], bool], look_every_s: float = LOOK_EVERY_S) -> None:
    """Raises RoundError when it takes too long."""
    deadline = time.perf_counter() + WAIT_S
    while not ready():
        if time.perf_counter() > deadline:
            raise RoundError(f"not ready after {WAIT_S:.0f} s")
        time.sleep(look_every_s)


def create(conversation: Conversation, topics: dict[str, int]) -> None:
    """In requests that a controller can write as one batch. Raises RoundError."""
    waiting = list(topics.items())
    while waiting:
        size = max(1, RECORDS_PER_REQUEST // (waiting[0][1] + 2))
        now, waiting = dict(waiting[:size]), waiting[size:]
        errors = many.created_errors(conversation.ask(many.create_topics(now, TOPIC_CONFIG)))
        if len(errors) != len(now) or any(errors.values()):
            raise RoundError(f"topics are not created: error codes {sorted(set(errors.values()))}")


def delete(conversation: Conversation, topics: Sequence[str]) -> None:
    errors = many.deleted_errors(conversation.ask(many.delete_topics(topics)))
    if any(errors.values()):
        raise RoundError(f"topics are not deleted: error codes {sorted(set(errors.values()))}")


def write_everywhere(conversation: Conversation, topics: dict[str, int]) -> None:
    """A batch into every partition, again where it is refused. Raises RoundError."""
    for piece in pieces(topics):
        _write(conversation, {name: range(count) for name, count in piece.items()})


def pieces(topics: dict[str, int]) -> Iterator[dict[str, int]]:
    """Groups of as many topics as one request should name partitions of, one topic at least."""
    piece: dict[str, int] = {}
    for name, count in topics.items():
        if piece and sum(piece.values()) + count > PARTITIONS_PER_REQUEST:
            yield piece
            piece = {}
        piece[name] = count
    if piece:
        yield piece


def _write(conversation: Conversation, partitions: dict[str, Sequence[int]]) -> None:
    batch = small_batch()
    deadline = time.perf_counter() + WAIT_S
    while partitions:
        refused: dict[str, list[int]] = {}
        code = 0
        for name, index, error in many.produced_errors(conversation.ask(many.produce(partitions, batch))):
            if error:
                refused.setdefault(name, []).append(index)
                code = error
        partitions = dict(refused)
        if partitions:
            time.sleep(RETRY_S)
        if time.perf_counter() > deadline:
            raise RoundError(f"{len(partitions)} topics are not writable after {WAIT_S:.0f} s: error code {code}")
