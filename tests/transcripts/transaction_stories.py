"""The transaction coordinator, as stories play it: one partition of ``__transaction_state``, and the markers it wants.

A log is committed at once, unless a story says ``replicas away``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_stories import CoordinatorStory, StoryTicket
from rendering import Input, Play, Rendering, StoryError, title
from transaction_world import FIRST_PRODUCER_ID, MONOTONIC_LAG_MS, TransactionWorld

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.transactions.events import (
    DescribeTransaction,
    MarkersWritten,
    TransactionRequest,
    TransactionTimersDue,
)
from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.transaction import STATE_NAMES
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.transaction_records import decode_value

LEFT_OUT = (
    "throttle_time_ms", "previous_producer_id", "client_transaction_version", "transaction_last_update_timestamp_ms",
)  # fmt: skip
TRANSACTION_LOG = 0
TIMEOUT_MS = 60_000


class TransactionRendering(Rendering):
    """Partitions of a topic are one word: ``t:0+1``."""

    def word(self, value: Any) -> str | None:
        numbers = getattr(value, "partition_ids", getattr(value, "partitions", None))
        if numbers is None or not hasattr(value, "topic"):
            return None
        return f"{value.topic}:{'+'.join(map(str, numbers))}"


class TransactionStory(CoordinatorStory):
    """A coordinator whose producers send all requests in their newest versions (KIP-890). Times are those of its
    monotonic clock."""

    def __init__(self) -> None:
        super().__init__(TransactionRendering(LEFT_OUT))
        self.rendering.codes["TransactionLogValue", "transaction_status"] = dict(STATE_NAMES)
        self.world = TransactionWorld()
        self.world.now_ms = MONOTONIC_LAG_MS
        self.world.restart()
        self._wanted_shown = 0

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "init": self.init,
            "add": self.add,
            "add-offsets": self.add_offsets,
            "end": self.end,
            "marked": self.marked,
            "describe": self.describe,
            "timers": self.timers,
            "restart": self.restart,
            "crash": self.crash,
            "replicas": self.replicas,
        }

    # Inputs.

    def init(self, given: Input) -> list[str]:
        """A producer begins; it sends ``producer_id`` and ``epoch`` if it goes on after an error (KIP-360)."""
        message = InitProducerIdRequest(
            transactional_id=given.text("id", "x"),
            transaction_timeout_ms=given.number("timeout_ms", TIMEOUT_MS),
            producer_id=given.number("producer_id", -1),
            producer_epoch=given.number("epoch", -1),
        )
        return self._ask(given, message, 5, new_producer_id=self._unused_id())

    def add(self, given: Input) -> list[str]:
        """Partitions enter the transaction. A broker may ask whether they are in it: ``verify_only=true``."""
        topics = [word.partition(":") for word in given.texts("partitions", "t:0")]
        message = AddPartitionsToTxnTransaction(
            transactional_id=given.text("id", "x"),
            producer_id=given.number("producer_id", 100),
            producer_epoch=given.number("epoch", 0),
            verify_only=given.flag("verify_only"),
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[int(each) for each in numbers.split("+")])
                for name, _, numbers in topics
            ],
        )
        return self._ask(given, message, given.number("version", 5))

    def add_offsets(self, given: Input) -> list[str]:
        """Offsets of a group enter the transaction, whose partition of ``__consumer_offsets`` is ``partition``."""
        message = AddOffsetsToTxnRequest(
            transactional_id=given.text("id", "x"),
            producer_id=given.number("producer_id", 100),
            producer_epoch=given.number("epoch", 0),
            group_id=given.text("group", "g"),
        )
        return self._ask(given, message, 4, group_partition=given.number("partition", 0))

    def end(self, given: Input) -> list[str]:
        outcome = given.word()
        if outcome not in ("commit", "abort"):
            raise StoryError(f"{given.line!r}: a transaction ends by commit or abort")
        message = EndTxnRequest(
            transactional_id=given.text("id", "x"),
            producer_id=given.number("producer_id", 100),
            producer_epoch=given.number("epoch", 0),
            committed=outcome == "commit",
        )
        return self._ask(given, message, given.number("version", 5), new_producer_id=self._unused_id())

    def marked(self, given: Input) -> list[str]:
        """The oldest markers that are wanted were written at ``partitions``, at all of them without that."""
        if not self.world.wanted:
            raise StoryError(f"{given.line!r}: no markers are wanted")
        self._to(given)
        markers = self.world.wanted[0]
        named = [word.rpartition("-") for word in given.texts("partitions")]
        partitions = [(topic, int(number)) for topic, _, number in named] or list(markers.partitions)
        left = tuple(each for each in markers.partitions if each not in partitions)
        self.world.wanted[:1] = [markers._replace(partitions=left)] if left else []
        self._wanted_shown = len(self.world.wanted)
        written = MarkersWritten(
            markers.transactional_id, markers.producer_id, markers.producer_epoch, partitions, self.world.now_ms
        )
        self.world.tell(written, markers.transactional_id)
        return self.outcome()

    def describe(self, given: Input) -> list[str]:
        self._to(given)
        transactional_id = given.text("id", "x")
        ticket = StoryTicket(self, "DescribeTransactions to admin")
        event = DescribeTransaction(ticket, transactional_id, self.world.now_ms)
        self.world.journal.submit(event, given.now_ms, ticket=ticket, key=transactional_id)
        return self.outcome()

    def timers(self, given: Input) -> list[str]:
        self._to(given)
        self.world.tell(TransactionTimersDue(self.world.now_ms, self._unused_id()))
        return self.outcome()

    def restart(self, given: Input) -> list[str]:
        """Another coordinator reads the log."""
        self._to(given)
        self._wanted_shown = 0
        self.world.restart()
        return self.outcome()

    def crash(self, given: Input) -> list[str]:
        """The coordinator dies, and the last ``lost`` records of its log were on no other broker."""
        self._to(given)
        kept = len(self.world.log) - given.number("lost", 0)
        self._wanted_shown, self.shown = 0, kept
        self.world.crash(kept)
        return self.outcome()

    def replicas(self, given: Input) -> list[str]:
        """``away``: the log is not committed from now on, so answers and markers wait. ``back``: it is."""
        self._to(given)
        word = given.word()
        if word not in ("away", "back"):
            raise StoryError(f"{given.line!r}: replicas are away or back")
        self.world.replicate = word == "back"
        if self.world.replicate:
            self.world.committed = len(self.world.log)
            self.world.commit()
        return self.outcome()

    def _unused_id(self) -> int:
        """A producer id that no record has, for a request or a timeout that needs one."""
        used = [record.transaction for record in self.world.records if record.transaction is not None]
        return max([FIRST_PRODUCER_ID - 1, *(max(each.producer_id, each.next_producer_id) for each in used)]) + 1

    # What comes out.

    def _to(self, given: Input) -> None:
        self.world.now_ms = MONOTONIC_LAG_MS + given.now_ms

    def _ask(self, given: Input, message: Any, version: int, **more: int) -> list[str]:
        self._to(given)
        ticket = StoryTicket(self, f"{title(message)} to {message.transactional_id}")
        request = TransactionRequest(ticket, message, version, self.world.now_ms, **more)
        self.world.journal.submit(request, given.now_ms, ticket=ticket, key=message.transactional_id)
        self.world.commit()
        return self.outcome()

    def reply_lines(self, head: str, message: Any) -> list[str]:
        if isinstance(message, int):
            return [f"= {head}: error_code={error_codes.name(message)}"]
        if isinstance(message, Alike):
            return [f"= {head}: error_code={error_codes.name(message.error_code)}"]
        if getattr(message, "transaction_start_time_ms", -1) >= 0:
            message.transaction_start_time_ms -= MONOTONIC_LAG_MS
        return super().reply_lines(head, message)

    def records(self) -> Sequence[TransactionRecord]:
        return self.world.records

    def record_lines(self, record: TransactionRecord) -> list[str]:
        _, value = record.encoded()
        if value is None:
            return [f"+ TransactionLog tombstone transactional_id={record.transactional_id}"]
        message = decode_value(TRANSACTION_LOG, value)
        if message.transaction_start_timestamp_ms >= 0:
            message.transaction_start_timestamp_ms -= MONOTONIC_LAG_MS
        return self.rendering.lines(f"+ TransactionLog transactional_id={record.transactional_id}", message)

    def outcome(self) -> list[str]:
        """The markers that are wanted follow the records and replies."""
        self.show_records()
        for markers in self.world.wanted[self._wanted_shown :]:
            partitions = ", ".join(f"{topic}-{number}" for topic, number in sorted(markers.partitions))
            result = "commit" if markers.commit else "abort"
            self.lines.append(
                f"= WriteTxnMarkers to the leaders: producer_id={markers.producer_id} "
                f"producer_epoch={markers.producer_epoch} transaction_result={result} partitions=[{partitions}]"
            )
        self._wanted_shown = len(self.world.wanted)
        return super().outcome()

    def states(self) -> dict[str, str]:
        deadline_ms = self.world.coordinator.next_deadline_ms()
        states = {
            name: f"transaction {name}: {STATE_NAMES[each.state]}" for name, each in self.world.transactions.items()
        }
        states["*"] = "no timers" if deadline_ms is None else f"timers at {deadline_ms} ms"
        return states
