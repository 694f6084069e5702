"""The transactions of a mirror's source: the end of its ``__transaction_state`` is read again and again in a thread,
and in between the ends of the mirrored partitions are asked for (`kpybroker.machines.mirror.decisions`).

Nothing is remembered between two runs: it begins at the log's end, with the transactions that the source lists as
ending.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kpybroker.client import transaction_requests
from kpybroker.client.client import LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.client.sources import MirrorSource
from kpybroker.client.transaction_requests import TransactionFilter
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.recurring_looks import RecurringLooks
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.machines.mirror.cuts import Place
from kpybroker.machines.mirror.decisions import CommitDecision
from kpybroker.machines.transactions.record import decode
from kpybroker.machines.transactions.transaction import EPOCH_BUMP_VERSION, TransactionState
from kpybroker.runtime.io.scheduler import Submit
from kpywire import error_codes
from kpywire.errors import Malformed

log = logging.getLogger("kpybroker.mirror")

SOON_MS: Final = 50
"""The pause between two looks while a marker is held back."""
LATER_MS: Final = 500
AFTER_ERROR_MS: Final = 1_000
WAIT_MS: Final = 20
COMMITTING: Final = ("PrepareCommit",)
FORBIDDEN: Final = frozenset(
    {
        error_codes.UNSUPPORTED_VERSION,
        error_codes.TOPIC_AUTHORIZATION_FAILED,
        error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        error_codes.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""The source does not show its transactions: before Kafka 3.0 none lists those that are ending (KIP-664)."""
ABSENT: Final = error_codes.UNKNOWN_TOPIC_OR_PARTITION


class StateChange(NamedTuple):
    """A record of a transactional id, and the decision to commit that it shows."""

    name: str
    decision: CommitDecision | None


class TransactionsLook(NamedTuple):
    """The ends of partitions, and the records that the log has had meanwhile."""

    before: list[StateChange]
    """The records from before the ends were asked for, since the look before."""
    ends: dict[Place, int]
    gone: frozenset[Place]
    """Partitions that the source does not have any more."""
    after: list[StateChange]
    is_gapless: bool
    pending: list[tuple[str, int]] | None
    """In a first look, the transactional ids that were ending before it, with their producers."""


class StateTail:
    """The reader of the log's end. It blocks."""

    def __init__(self, source: MirrorSource) -> None:
        self.source = source
        self._client: Client | None = None
        self._positions: dict[Spot, int] | None = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def look(self, wanted: Mapping[Spot, Place], *, is_late: bool) -> TransactionsLook:
        """Ask for the ends of these partitions, then read to the log's end; also before that if the look before was
        long ago (``is_late``), so that less is between both. KafkaError, Unreachable."""
        if self._client is None:
            self._client = self.source.client()
        client, pending = self._client, None
        if self._positions is None:
            partitions = self._partitions(client)
            self._positions = client.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
            self._check_readable(client)
            listed = transaction_requests.transactions(client, TransactionFilter(states=COMMITTING))
            pending = [(each.transactional_id, each.producer_id) for each in listed]
        before, was_gapless = self._read(client) if is_late else ([], True)
        ends, gone = _ends(client, wanted)
        after, is_gapless = self._read(client)
        return TransactionsLook(before, ends, gone, after, was_gapless and is_gapless, pending)

    def _partitions(self, client: Client) -> list[Spot]:
        for topic in client.topics([TRANSACTION_STATE_TOPIC]):
            if topic.error_code not in (error_codes.NONE, ABSENT):
                raise KafkaError(topic.error_code, TRANSACTION_STATE_TOPIC)
            return [Spot(TRANSACTION_STATE_TOPIC, each.partition_index) for each in topic.partitions]
        return []

    def _check_readable(self, client: Client) -> None:
        """Raise KafkaError if the log may be described, and not be read."""
        if self._positions:
            spot, end = next(iter(self._positions.items()))
            for _ in RecordReader(client, {spot: end}, fetching=FetchSettings(max_wait_ms=WAIT_MS)).poll():
                break

    def _read(self, client: Client) -> tuple[list[StateChange], bool]:
        positions = self._positions
        assert positions is not None
        new = [spot for spot in self._partitions(client) if spot not in positions]
        positions |= dict.fromkeys(new, 0)  # the topic is made with the first transaction
        ends = client.list_offsets(dict.fromkeys(positions, LATEST_TIMESTAMP)) if positions else {}
        changes: list[StateChange] = []
        is_gapless = True
        while behind := {spot: at for spot, at in positions.items() if at < ends[spot]}:
            reader = RecordReader(client, behind, fetching=FetchSettings(max_wait_ms=WAIT_MS))
            for read in reader.poll():
                is_gapless = is_gapless and read.record.offset == positions[read.spot]
                positions[read.spot] = read.record.offset + 1
                change = _change(read.record.key, read.record.value)
                if change is not None:
                    changes.append(change)
            positions |= {spot: max(at, positions[spot]) for spot, at in reader.positions.items()}
        return changes, is_gapless


def _ends(client: Client, wanted: Mapping[Spot, Place]) -> tuple[dict[Place, int], frozenset[Place]]:
    there = {topic.name or "": topic for topic in client.topics()}
    led, gone = [], set()
    for spot, place in wanted.items():
        topic = there.get(spot.topic)
        parts = {} if topic is None else {each.partition_index: each for each in topic.partitions}
        if topic is None or topic.topic_id != place[0] or spot.partition not in parts:
            gone.add(place)
        elif parts[spot.partition].leader_id >= 0:
            led.append(spot)
    ends = client.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP)) if led else {}
    return {wanted[spot]: end for spot, end in ends.items()}, frozenset(gone)


def _change(key: bytes | None, value: bytes | None) -> StateChange | None:
    try:
        found = decode(key or b"", value)
    except Malformed as error:
        log.debug("A record of %s is passed over: %s", TRANSACTION_STATE_TOPIC, error)
        return None
    if found is None:
        return None
    name, state = found.transactional_id, found.transaction
    if state is None or state.state is not TransactionState.PREPARE_COMMIT:
        return StateChange(name, None)
    has_own_epoch = state.client_version >= EPOCH_BUMP_VERSION
    return StateChange(name, CommitDecision(state.producer_id, state.producer_epoch, state.partitions, has_own_epoch))


class SourceTransactions:
    """The looks at one source, one at a time, by the broker that finds places."""

    def __init__(self, parts: MirrorParts, read: Submit) -> None:
        """``read`` does in a thread what waits for the source."""
        self._read = read
        self._tail: StateTail | None = None
        self._looking = RecurringLooks(parts.scheduler, self._look)
        self.wanted: Callable[[], Mapping[Spot, Place]] | None = None
        """The partitions that are mirrored, as of now; None while nothing is asked for."""
        self.looked: Callable[[TransactionsLook | KafkaError | None], int] = lambda _look: LATER_MS
        """Called with each result, with the error if the source forbids it, and with None after another error. It
        returns the pause before the next look."""

    def begin(self, source: MirrorSource) -> None:
        """Look at this source from now on."""
        if self._tail is None or self._tail.source != source:
            self._drop()
            self._tail = StateTail(source)
        self._looking.begin()

    def stop(self) -> None:
        """Look no more."""
        self._drop()
        self._looking.stop()

    def soon(self) -> None:
        """Look now, unless a look is under way."""
        self._looking.hurry(SOON_MS)

    def again(self) -> None:
        """Begin at the log's end again with the next look."""
        if self._tail is not None:
            source = self._tail.source
            self._drop()
            self._tail = StateTail(source)

    def _drop(self) -> None:
        if self._tail is not None and not self._looking.is_under_way:
            self._tail.close()
        self._tail = None

    def _look(self) -> None:
        tail = self._tail
        assert tail is not None
        wanted = {} if self.wanted is None else self.wanted()

        def has_looked(found: TransactionsLook | None, error: BaseException | None) -> None:
            if self._tail is not tail:
                tail.close()
                self._looking.over(SOON_MS)
                return
            if error is not None:
                log.debug("The transactions of a source cannot be read: %s", error)
                self.again()
                tail.close()
            result = error if isinstance(error, KafkaError) and error.code in FORBIDDEN else found
            self._looking.over(self.looked(result))

        is_late = self._looking.pause_ms > SOON_MS
        self._read(lambda: tail.look(wanted, is_late=is_late), has_looked)
