"""Random histories of epochs and copies, and segments in the words of ``RemoteLogOracle.java``."""

from collections.abc import Iterable, Sequence
from random import Random

from kpybroker.machines.remote_log.segments import (
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
)
from kpywire.uuid import from_string, to_string
from oracle.asked import AskedOracle

QUESTION_END = "\x1e"
TOPIC_ID = from_string("AAAAAAAAAAcAAAAAAAAABw")
NO_CUSTOM_METADATA = "-"


def segment_id(number: int) -> bytes:
    """A UUID that has no leading dash, which Java's tools refuse."""
    return (0x1234_5678_0000_4000_8000_0000_0000_0000 + number).to_bytes(16, "big")


def named(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(TOPIC_ID, "t", 0, segment_id(number))


def segment(
    number: int,
    start: int,
    end: int,
    epochs: Sequence[tuple[int, int]],
    *,
    state: RemoteLogSegmentState = STARTED,
    size_bytes: int = 100,
    max_timestamp_ms: int = 0,
    event_timestamp_ms: int = 0,
    custom_metadata: bytes | None = None,
    is_transaction_index_empty: bool = False,
) -> RemoteLogSegment:
    return RemoteLogSegment(
        named(number),
        start,
        end,
        1,
        max_timestamp_ms,
        event_timestamp_ms,
        tuple(epochs),
        size_bytes,
        custom_metadata,
        state,
        is_transaction_index_empty,
    )


def update(
    of: RemoteLogSegment, state: RemoteLogSegmentState, custom_metadata: bytes | None = None
) -> RemoteLogSegmentUpdate:
    return RemoteLogSegmentUpdate(of.id, of.event_timestamp_ms + 1, custom_metadata, state, 2)


def in_words(epochs: Sequence[tuple[int, int]]) -> str:
    return ",".join(f"{epoch}:{start}" for epoch, start in epochs)


def to_words(of: RemoteLogSegment) -> tuple[object, ...]:
    """The words that name a segment in a question."""
    return (
        to_string(of.id.segment_id),
        of.start_offset,
        of.end_offset,
        of.max_timestamp_ms,
        of.broker_id,
        of.event_timestamp_ms,
        of.size_bytes,
        NO_CUSTOM_METADATA if of.custom_metadata is None else of.custom_metadata.decode(),
        int(of.state),
        in_words(of.leader_epochs),
        int(of.is_transaction_index_empty),
    )


def random_epochs(rng: Random, first: int = 0, *, gaps: bool = True) -> list[tuple[int, int]]:
    """The epochs of a log, some of them without records."""
    epoch, start, found = rng.randint(0, 3), first, []
    for _ in range(rng.randint(1, 6)):
        found.append((epoch, start))
        epoch += rng.randint(1, 2)
        start += rng.choice((0, 1, 5, 10, 30)) if gaps else rng.choice((1, 5, 10, 30))
    return found


def cut(epochs: Sequence[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The epochs of the records from ``start`` to ``end``, inclusive, as Kafka's leader writes them."""
    found: list[tuple[int, int]] = []
    for epoch, first in epochs:
        if first <= start:
            found = [(epoch, start)]
        elif first <= end:
            found.append((epoch, first))
    return tuple(found)


def ask_all(kafka: AskedOracle, questions: Iterable[Sequence[object]]) -> list[str]:
    """The answers to many questions, in one line to the oracle and one back."""
    line = QUESTION_END.join("\t".join(map(str, words)) for words in questions)
    return kafka.ask_for_line(line).split(QUESTION_END)
