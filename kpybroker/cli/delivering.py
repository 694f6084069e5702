"""The loop of ``kpybroker produce``: lines from the input, rounds of the sender, messages about both on stderr.

Invariant: for every line that was read it is reported whether it is in the topic: by the count at the end, or by its
number.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kpybroker.cli.contact import Contact, say, why
from kpybroker.cli.intake import Intake, Lines
from kpybroker.cli.tables import duration_text, plural
from kpybroker.client.connection import Unreachable
from kpybroker.client.sender import FailedRecord, Placed, Sender, WaitingRecord
from kpybroker.machines.errors import KafkaError
from kpywire.record import Record

LOOK_S: Final = 0.5
"""The interval at which the broker is checked while there is nothing to send."""
NAMED_SINGLY: Final = 10
PREVIEW_BYTES: Final = 40


class DeliveryCounts(NamedTuple):
    """The number of records by outcome."""

    placed: int
    late: int
    refused: int


class BadLine(ValueError):
    """A line that is no record: the lines before it are delivered, and none behind it."""


class Delivering:
    """Delivers the lines of an input. ``record_of`` makes a record from a line, its number and its time, or raises
    BadLine."""

    def __init__(
        self,
        sender: Sender,
        intake: Intake,
        record_of: Callable[[bytes, int, int], Record],
        contact: Contact,
        *,
        linger_s: float,
        buffer_bytes: int,
    ) -> None:
        self.sender = sender
        self.intake = intake
        self.record_of = record_of
        self.contact = contact
        self.linger_s = linger_s
        self.buffer_bytes = buffer_bytes
        self.bad_line: BadLine | None = None
        """The reason why lines were left."""
        self._pause_s = 0.0
        self._due_s = 0.0
        self._placed = self._late = self._refused = 0

    @property
    def counts(self) -> DeliveryCounts:
        return DeliveryCounts(self._placed, self._late, self._refused)

    def run(self) -> Iterator[list[Placed]]:
        """Deliver until the input has ended and every record is settled. Yields the placed records of each round.

        Raises Refused, where none of the rest can be delivered, and the errors of `Intake.take`.
        """
        while not self.intake.is_over or self.sender:
            is_full = self.sender.waiting_bytes >= self.buffer_bytes
            lines = None if is_full else self.intake.take(self._wait_s())
            if lines is not None:
                self._add(lines)
            elif self.sender and (self.intake.is_over or is_full):
                time.sleep(self._wait_s())
            if not self.sender:
                self._look()
            elif self._pause_s > 0 and time.monotonic() < min(self._due_s, self.sender.first_deadline_s):
                continue
            elif self._is_due():
                yield self._round()

    def _add(self, lines: Lines) -> None:
        if not self.sender:
            self._due_s = lines.came_s + self.linger_s
        records = []
        try:
            for number, line in enumerate(lines.lines, lines.first):
                records.append(self.record_of(line, number, lines.time_ms))
        except BadLine as error:
            self.bad_line = error
            self.intake.is_over = True
        self.sender.add(records, lines.first, lines.came_s)

    def _is_due(self) -> bool:
        return self.sender.is_full or self.intake.is_over or time.monotonic() >= self._due_s

    def _wait_s(self) -> float:
        """The time to wait for lines."""
        if not self.sender:
            return LOOK_S
        if self._is_due() and self._pause_s == 0:
            return 0.0
        return max(0.0, min(self._due_s, self.sender.first_deadline_s) - time.monotonic())

    def _round(self) -> list[Placed]:
        settled = self.sender.round()
        self._placed += len(settled.placed)
        self._tell(settled.failed, settled.trouble)
        if settled.trouble is None:
            self.contact.back()
            self._pause_s = 0.0
        else:
            self.contact.lost(settled.trouble)
            settings = self.sender.client.settings
            self._pause_s = min(max(self._pause_s * 2, settings.backoff_s, 0.001), settings.backoff_max_s or 0.001)
            self._due_s = time.monotonic() + self._pause_s
        return settled.placed

    def _look(self) -> None:
        """Check whether the broker is there, while there is nothing to send."""
        client = self.sender.client
        if not client.drop_closed() and not self.contact.is_lost:
            return
        try:
            client.nodes()
        except (Unreachable, KafkaError) as error:
            self.contact.lost(error)
        else:
            self.contact.back()

    def _tell(self, failed: Sequence[FailedRecord], trouble: KafkaError | Unreachable | None) -> None:
        """Name the records that failed in a round, one per line, or many with the same reason together."""
        by_reason: dict[str, list[WaitingRecord]] = {}
        for each in failed:
            if each.error is not None:
                self._refused += not isinstance(each.error, Unreachable)
                self._late += isinstance(each.error, Unreachable)
                text = why(each.error)
            else:
                self._late += 1
                span = duration_text(int(self.sender.delivery.timeout_s * 1000))
                last = f": {why(trouble)}" if trouble is not None else ""
                text = f"not delivered within {span} (delivery.timeout.ms){last}"
            if each.may_be_there:
                text += "; it may be in the topic all the same"
            by_reason.setdefault(text, []).append(each.waiting)
        for text, waiting in by_reason.items():
            for name in names_of(waiting):
                say(f"Error: {name}: {text}")


def names_of(waiting: Sequence[WaitingRecord]) -> Iterable[str]:
    """The lines by number: ``line 7 ('hello')`` for each, or ``lines 7-500, 502`` for many."""
    if len(waiting) <= NAMED_SINGLY:
        return [f"line {each.line} ({_preview(each.record.value)})" for each in waiting]
    return [f"lines {ranges([each.line for each in waiting])}"]


def _preview(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = repr(value[:PREVIEW_BYTES].decode("utf-8", "replace"))
    return f"{text}..." if len(value) > PREVIEW_BYTES else text


def ranges(numbers: Iterable[int]) -> str:
    """``7-500, 502`` of ascending numbers."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def left_behind(waiting: Sequence[WaitingRecord]) -> str:
    """``3 records were not delivered: lines 4-6``."""
    were = "was" if len(waiting) == 1 else "were"
    return f"{plural(len(waiting), 'record')} {were} not delivered: lines {ranges([each.line for each in waiting])}"
