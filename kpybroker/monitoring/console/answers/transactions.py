"""The transactions that this node coordinates, and those that are open in the partitions that it leads."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.listing import DESCENDING, PER_PAGE, pages_of
from kpybroker.machines.console.transactions import (
    PIN_KEYS,
    TRANSACTION_KEYS,
    PinRow,
    TransactionRow,
    TransactionsPage,
)
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

log = logging.getLogger("kpybroker.console")

MOST_PINS: Final = 200
ATTEMPTS: Final = 50
PAUSE_S: Final = 0.1
"""The pause between attempts while the markers of the aborted transaction are written."""
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


async def transactions(node: NodeParts, viewer: Viewer, query: Query) -> TransactionsPage:
    """A page of them."""
    search, sort = query.text("q")[:249], query.text("sort")
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    answer = await node.ask(viewer, request)
    refuse(answer.error_code, "the transactions of this node")
    names = [each.transactional_id for each in answer.transaction_states]
    names = sorted(name for name in names if search.lower() in name.lower())
    page, pages = pages_of(len(names), query.number("page", 1, lowest=1))
    shown = slice((page - 1) * PER_PAGE, page * PER_PAGE)
    if sort.removeprefix(DESCENDING) in TRANSACTION_KEYS:
        every: list[TransactionRow] = []
        for start in range(0, len(names), PER_PAGE):
            every += await _described(node, viewer, names[start : start + PER_PAGE])
        rows = (await sorted_in_pieces(every, TRANSACTION_KEYS, sort))[shown]
    else:
        rows = await _described(node, viewer, names[shown])
    pins = await sorted_in_pieces(await _pins(node, viewer), PIN_KEYS, sort)
    left_out = max(0, len(pins) - MOST_PINS)
    return TransactionsPage(search, page, pages, len(names), tuple(rows), tuple(pins[:MOST_PINS]), left_out)


async def _described(node: NodeParts, viewer: Viewer, names: Sequence[str]) -> list[TransactionRow]:
    """The rows of these transactional ids."""
    if not names:
        return []
    found = await node.ask(viewer, DescribeTransactionsRequest(transactional_ids=list(names)))
    now_ms = node.broker.scheduler.now_ms()
    return [
        _row(each, now_ms, may_abort=node.is_writable and may_write(viewer, each.transactional_id))
        async for each in paced(found.transaction_states)
    ]


def may_write(viewer: Viewer, transactional_id: str) -> bool:
    """Whether a viewer may take a transactional id over, which aborts its transaction."""
    return viewer.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _row(found: Any, now_ms: int, *, may_abort: bool) -> TransactionRow:
    is_open = found.transaction_state in OPEN and found.transaction_start_time_ms >= 0
    return TransactionRow(
        found.transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        max(0, now_ms - found.transaction_start_time_ms) / 1000 if is_open else None,
        tuple(f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions),
        is_open and may_abort,
    )


async def _pins(node: NodeParts, viewer: Viewer) -> tuple[PinRow, ...]:
    rows: list[PinRow] = []
    async for replica in paced(list(node.broker.replicas)):
        leader = replica.leader
        if leader is None or leader.log.producers.first_unstable is None:
            continue
        if not viewer.may_see_topic(replica.topic.name):
            continue
        for producer_id, first_offset, last_ms in leader.log.producers.open_transactions():
            name = transactional_id_of(node, viewer, producer_id)
            end = leader.high_watermark.offset
            rows.append(PinRow(replica.topic.name, replica.index, producer_id, name, first_offset, end, last_ms))
    return tuple(sorted(rows, key=lambda row: row.last_write_ms))


def transactional_id_of(node: NodeParts, viewer: Viewer, producer_id: int) -> str | None:
    """The transactional id of a producer, if this node coordinates it and the viewer may know its name."""
    name = next((name for name, found in _known(node.broker) if found == producer_id), None)
    may_know = name is not None and viewer.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
    return name if may_know else None


def _known(broker: "Broker") -> Iterator[tuple[str, int]]:
    for shard in list(broker.transactions.shards.values()):
        machine: Any = shard.machine
        if shard.journal.is_open:
            for name, transaction in list(machine.shard.transactions.items()):
                yield name, transaction.producer_id


async def abort(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Abort the open transaction of a transactional id, and fence its producer, as its next producer would. Returns the
    page of transactions. Raises Refused."""
    name = query.needed("transactional_id")
    described = await node.ask(viewer, DescribeTransactionsRequest(transactional_ids=[name]))
    (state,) = described.transaction_states
    refuse(state.error_code, f"transactional id {name[:249]}")
    if state.transaction_state != OPEN[0]:
        raise bad(f"transactional id {name[:249]} has no open transaction: it is {state.transaction_state}")
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    for _ in range(ATTEMPTS):
        answer = await node.ask(viewer, request)
        if answer.error_code != error_codes.CONCURRENT_TRANSACTIONS:
            break
        await asyncio.sleep(PAUSE_S)
    refuse(answer.error_code, f"transactional id {name[:249]}")
    log.info("%s aborted the transaction of %a and fenced its producer", viewer.identity, name)
    return "/transactions"
