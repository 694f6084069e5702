"""The machine that the journal runs over the metadata log: one decision per request or timer.

Requests come as :class:`~kpybroker.machines.controller.state.ControllerRequest`, timers and the begin of a reign as the
small events below. Exists on the active controller only, made from the committed image when its epoch has begun.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from kpybroker.machines.controller import brokers, migration
from kpybroker.machines.controller.activation import activation_records
from kpybroker.machines.controller.deciders import decider_of, has_no_time
from kpybroker.machines.controller.large_batch import LARGE_RECORDS, LargeBatch, large_batch
from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.journal import NOTHING, Effects, EventTooLarge, ProducerEpoch, Ticket
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import InvalidMetadata
from kpywire import error_codes
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.no_op_record import NoOpRecord

MAX_ELECTIONS_AT_ONCE = 1_000
RECORDS_IN_PLAIN_BATCH = 10_000


class Decided(NamedTuple):
    """The outcome of a request that was decided in steps."""

    request: ControllerRequest
    outcome: Effects | Exception


class Activate(NamedTuple):
    """The first input: write the records that the log lacks. ``bootstrap_records`` are for an empty log."""

    bootstrap_records: list[Any]


class Idle(NamedTuple):
    """An event after a while without writes: a NoOpRecord lets observers see how far behind they are (KIP-835)."""


class FenceStaleBrokers(NamedTuple):
    """Look for brokers that fell silent."""


class ElectPreferredLeaders(NamedTuple):
    """Move leaderships back to preferred replicas."""


class SweepExpiredTokens(NamedTuple):
    """Remove delegation tokens that have expired."""

    wall_clock_ms: int


class ElectUncleanLeaders(NamedTuple):
    """Give leaderless partitions of topics that allow it any leader."""


class Controller:
    """The machine that decides on the state it was given."""

    def __init__(self, state: ControllerState) -> None:
        self.state = state
        self._is_deliberating = False
        self._unapplied: tuple[LargeBatch, int] | None = None

    def decide(self, event: Any, now_ms: int) -> Effects:
        """Decide on a request or a timer. Timers have no effect while a request is decided in steps."""
        if isinstance(event, ControllerRequest):
            return self._answer(event, now_ms)
        if isinstance(event, Decided):
            if isinstance(event.outcome, Exception):
                raise event.outcome
            return event.outcome
        if isinstance(event, EventTooLarge):
            return self._refuse_too_large(event.event)
        return NOTHING if self._is_deliberating else self._on_timer(event, now_ms)

    def _on_timer(self, event: Any, now_ms: int) -> Effects:
        if isinstance(event, Activate):
            return self._write(activation_records(self.state, event.bootstrap_records))
        if isinstance(event, Idle):
            return self._write([NoOpRecord()])
        if isinstance(event, FenceStaleBrokers):
            return self._fence_stale_brokers(now_ms)
        if isinstance(event, ElectPreferredLeaders):
            from kpybroker.machines.controller import partitions

            return self._write(partitions.elect_preferred_leaders(self.state, MAX_ELECTIONS_AT_ONCE))
        if isinstance(event, ElectUncleanLeaders):
            from kpybroker.machines.controller import partitions

            return self._write(partitions.elect_unclean_leaders(self.state, MAX_ELECTIONS_AT_ONCE))
        if isinstance(event, SweepExpiredTokens):
            from kpybroker.machines.controller import delegation_tokens

            records, more = delegation_tokens.sweep_expired_tokens(self.state, event.wall_clock_ms)
            return self._write(records, then=event if more else None)
        raise TypeError(f"No decision on {type(event).__name__}")

    def deliberate(self, request: ControllerRequest, now_ms: int) -> Generator[None, None, Decided]:
        """Decide on a request in steps. The outcome must be the next decision, and nothing else may be decided until
        `settle` is done."""
        self._is_deliberating = True
        try:
            effects = yield from self._answer_in_steps(request, now_ms)
            if len(effects.records) >= LARGE_RECORDS:
                whole = yield from large_batch(effects.records, self.state.image.level)
                effects = Effects([whole], effects.producer, effects.replies, effects.sends, effects.then)
        except Exception as error:
            return Decided(request, error)
        return Decided(request, effects)

    def settle(self) -> Generator[None, None, None]:
        """Apply the outcome of `deliberate` to the state, in steps; after that other requests may be decided again."""
        if self._unapplied is not None:
            batch, offset = self._unapplied
            self._unapplied = None
            for number, unit in enumerate(batch.units):
                self.state.image.apply_unit(unit, offset, self.state)
                offset += unit.records
                if number % STEP == LAST_OF_STEP:
                    yield
        self._is_deliberating = False

    def apply(self, record: Any, offset: int, producer: ProducerEpoch | None = None) -> None:
        """Apply one record to the state. A large batch is applied by the next `settle`."""
        if type(record) is LargeBatch:
            self._unapplied = record, offset
        else:
            self.state.apply(record, offset, producer)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:  # noqa: ARG002
        """The metadata log has no transactional producers, and so no markers."""
        raise InvalidMetadata(
            f"A transaction marker of producer {producer.producer_id} at {offset} of the metadata log"
        )

    def _answer(self, request: ControllerRequest, now_ms: int) -> Effects:
        steps = self._answer_in_steps(request, now_ms)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                effects: Effects = end.value
                return effects

    def _answer_in_steps(self, request: ControllerRequest, now_ms: int) -> Generator[None, None, Effects]:
        try:
            migration.check_request(self.state, type(request.message).__name__)
            if has_no_time(request.message):
                raise KafkaError(error_codes.REQUEST_TIMED_OUT)
            decision = decider_of(type(request.message).__name__)(self.state, request, now_ms)
            records, response = decision if isinstance(decision, tuple) else (yield from decision)
        except KafkaError as error:
            from kpybroker.machines.controller.error_responses import error_response_in_steps

            response = yield from error_response_in_steps(
                request.message, request.api_version, error.code, error.message
            )
            return Effects(replies=[(request.ticket, response)])
        return self._write(records, replies=[(request.ticket, response)])

    def _write(self, records: list[Any], *, replies: Sequence[tuple[Ticket, Any]] = (), then: Any = None) -> Effects:
        """Return records as effects. If they do not fit in one batch, they are wrapped in a metadata transaction
        (KIP-868)."""
        if len(records) > RECORDS_IN_PLAIN_BATCH and self.state.image.level >= metadata_version.TRANSACTIONS:
            records = [BeginTransactionRecord(name="Large change"), *records, EndTransactionRecord()]
        return Effects(records, replies=replies, then=then)

    def _fence_stale_brokers(self, now_ms: int) -> Effects:
        records, more = brokers.fence_stale_broker(self.state, now_ms)
        return self._write(records, then=FenceStaleBrokers() if more else None)

    def _refuse_too_large(self, event: Any) -> Effects:
        if isinstance(event, Decided):
            event = event.request
        if not isinstance(event, ControllerRequest):
            return NOTHING
        from kpybroker.machines.controller.error_responses import plain_error_response

        return Effects(
            replies=[
                (
                    event.ticket,
                    plain_error_response(event.message, event.api_version, error_codes.RECORD_LIST_TOO_LARGE),
                )
            ]
        )
