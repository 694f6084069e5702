"""The loop of a writer: to the present end of a topic once, or behind its end until somebody stops it."""

import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.topic import LakeTopic
from kpybroker.pipeline.lake.writing import CommitOutcome, GenerationWriter
from kpywire import error_codes

POLL_S: Final = 0.25
OUTAGE_S: Final = 1.0
MOST_EARLY_S: Final = 1.5
"""A commit begins earlier than it is due by the time that the last one took, and by this at most."""


class StopEvent(Protocol):
    """``threading.Event``, as far as it is used here."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


def once(
    writer: GenerationWriter, topic: LakeTopic, stop: StopEvent, say: Callable[[str], object] = print
) -> Iterator[CommitOutcome]:
    """The commits up to the ends of the partitions as they are now."""
    ends = topic.ends()
    for line in writer.require_log(ends):
        say(line)
    while not stop.is_set():
        committed = writer.write(ends)
        if committed is None:
            return
        yield committed


def follow(
    writer: GenerationWriter, topic: LakeTopic, topic_id: str, stop: StopEvent, say: Callable[[str], object]
) -> Iterator[CommitOutcome]:
    """The commits until ``stop`` is set. A cluster that goes away is waited for; the topic must stay the same."""
    since_s = time.monotonic()
    early_s = 0.0
    is_away = False
    while not stop.is_set():
        try:
            if topic.find() != topic_id:
                raise LakeError(f"topic {topic.name} was deleted and created again; start again to continue")
            asked_s = time.monotonic()
            ends = topic.ends()
            if ends.keys() - writer.coverage.keys():
                writer.begin(backfill=False)
            for line in writer.require_log(ends):
                say(line)
            waiting = writer.pending(ends)
            if not waiting:
                since_s = asked_s
            began_s = time.monotonic()
            if writer.is_due(waiting, int((began_s - since_s + early_s) * 1000)):
                committed = writer.write(ends)
                since_s = asked_s  # records that came while it was written wait since then
                early_s = min(time.monotonic() - began_s, MOST_EARLY_S)
                if committed is not None:
                    yield committed
            else:
                stop.wait(POLL_S)
        except (Unreachable, KafkaError) as error:
            if isinstance(error, KafkaError) and not error_codes.retriable(error.code):
                raise
            if not is_away:
                say(f"{error}; waiting for the cluster.")
            is_away = True
            stop.wait(OUTAGE_S)
        else:
            is_away = False
