"""ListTransactions (66), versions 0-2: the transactional ids that this node coordinates (KIP-664).

- v1: filter by the time that a transaction has been running (KIP-994). v2: filter by a pattern; an invalid one is
  INVALID_REGULAR_EXPRESSION (KIP-1152).
- Unknown states are reported, and match nothing.
- While any shard loads, the whole answer is COORDINATOR_LOAD_IN_PROGRESS: an incomplete list would look complete.
"""

from collections.abc import Callable, Generator

from kpybroker.machines.coordination.pattern import whole_match
from kpybroker.machines.re2_patterns import InvalidPattern
from kpybroker.machines.transactions.describe import listing
from kpybroker.machines.transactions.events import ListTransactions
from kpybroker.machines.transactions.transaction import STATE_NAMES
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpywire import error_codes
from kpywire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

NAMES = frozenset(STATE_NAMES.values())


def handle(broker: Context, request: ListTransactionsRequest, _call: Call) -> Work:
    """Ask every shard, and merge the answers."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in NAMES]
    pattern = request.transactional_id_pattern
    try:
        matches = whole_match(pattern) if pattern else None
    except InvalidPattern:
        return listing(error_codes.INVALID_REGULAR_EXPRESSION, [], [])
    request.transactional_id_pattern = None  # below, in steps: one may take long for each of many ids
    # No shard looks at thousands of names for each of its own.
    request.state_filters = list(set(request.state_filters) & NAMES) or request.state_filters[:1]
    timestamp_ms = broker.scheduler.now_ms()
    asked = yield from broker.transactions.submit_to_all(
        lambda ticket: ListTransactions(ticket, request, timestamp_ms),
        lambda code: listing(coordinator_error(code), [], []),
    )
    merged = gathered(asked, lambda answers: _merged(answers, unknown))
    if isinstance(merged, Pending):
        merged = yield merged
    if matches is not None:
        merged.transaction_states = yield from _matching(merged.transaction_states, matches)
    return merged


def _matching(
    states: list[TransactionState], matches: Callable[[str], bool]
) -> Generator[None, None, list[TransactionState]]:
    found = []
    for state in states:
        if matches(state.transactional_id):
            found.append(state)
        yield
    return found


def _merged(answers: list[ListTransactionsResponse], unknown: list[str]) -> ListTransactionsResponse:
    codes = {answer.error_code for answer in answers} - {error_codes.NONE, error_codes.NOT_COORDINATOR}
    if codes:
        return listing(min(codes), [], [])
    return listing(error_codes.NONE, unknown, [each for answer in answers for each in answer.transaction_states])
