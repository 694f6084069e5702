"""Produced batches that are not appended at once: their check takes long, or many came before them in their request.

Those that take long are checked by the process beside the loop (`kpybroker.hosts.labour`). Each is appended in a step
of its own, after everything about its partition is read again. Not a handler.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.hosts.labour.tasks import Answer, BatchCheck, CheckedBatch, Denied, Overloaded
from kpybroker.machines.partition.validation import Accepted, BatchRefused, ValidationConfig
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.produce import Answers, Records, TopicKey
from kpywire.produce_hints import HintedAnswers

SHARED_BYTES: Final = 1 << 20
"""A buffer below this size may be the one that all connections share."""


class Postponed(NamedTuple):
    """A batch that is not appended yet."""

    key: TopicKey
    partition: int
    records: Records | None
    rules: ValidationConfig | None
    """The rules of its topic, if its check takes long."""
    name: str
    """Its partition, for messages."""
    answers: list[bytes]
    place: int
    """The place of its answer among those of its topic."""


Serve = Callable[[Postponed, Accepted | BatchRefused | None], Answers | Pending | None]


def party_of(call: Call) -> str:
    """The name of a client for the process that does long work: its connections share it."""
    return f"{call.principal}@{call.host}"


def charge_of(call: Call) -> Callable[[int], object] | None:
    """The function that charges the client's request quota with CPU time of that process; None without quotas."""
    return None if call.throttle is None else partial(call.throttle.worked_elsewhere, call)


def append(
    broker: Context,
    call: Call,
    acks: int,
    first: Answers | Pending | None,
    postponed: Sequence[Postponed],
    serve: Serve,
) -> Generator[Pending | None, Any, Any]:
    """Append what was postponed, in steps. Return the answer to the whole request, or a `Pending` of it.

    ``first``: the answer with places for what was postponed; ``serve`` appends one of them.
    """
    postponed = [_held(each) for each in postponed]
    later = Pending()
    broker.scheduler.call_soon(later.resolve, None)
    yield later  # the turn that it came in writes its appends together, and this one takes several
    answers: list[Answers | Pending | None] = [first]
    try:
        for each in postponed:
            outcome: Accepted | BatchRefused | None = None
            if each.rules is not None and each.records is not None:
                task = BatchCheck(bytes(each.records), each.rules.rules, broker.scheduler.now_ms(), each.name)
                answer: Answer = yield broker.labour.ask(party_of(call), task, charge_of(call))
                outcome = _outcome(answer, each.records)
            answers.append(serve(each, outcome))
            yield None
    except CloseConnection as why:
        call.peer.give_up(str(why))
        return None
    return None if acks == 0 else gathered(answers, lambda found: _filled(found, postponed))


def _held(postponed: Postponed) -> Postponed:
    kept = _kept(postponed.records)
    return postponed if kept is postponed.records else postponed._replace(records=kept)


def _kept(records: Records | None) -> Records | None:
    """The records in a buffer that nobody else receives into."""
    if not isinstance(records, memoryview):
        return records
    buffer = records.obj
    is_own = isinstance(buffer, bytearray) and len(buffer) >= SHARED_BYTES
    return records if is_own else memoryview(bytearray(records))


def _outcome(answer: Answer, records: Records) -> Accepted | BatchRefused:
    if isinstance(answer, CheckedBatch):
        return answer.accepted(records)
    if isinstance(answer, Denied):
        return answer.error()
    if isinstance(answer, Overloaded):
        return BatchRefused(error_codes.REQUEST_TIMED_OUT, "too many batches wait for their check")
    return BatchRefused(error_codes.UNKNOWN_SERVER_ERROR, f"a batch cannot be checked: {answer}")


def _filled(found: list[Answers], postponed: Sequence[Postponed]) -> Answers:
    """The first answer, with those of the postponed batches in their places."""
    first, *others = found
    for each, ((_, (answer,)),) in zip(postponed, others, strict=True):
        if not each.answers[each.place]:  # the refusal of another batch of the partition stays
            each.answers[each.place] = answer
    nodes = {node.node_id: node for piece in found if isinstance(piece, HintedAnswers) for node in piece.node_endpoints}
    return HintedAnswers(list(first), list(nodes.values())) if nodes else first
