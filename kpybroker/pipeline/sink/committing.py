"""One transaction for all tasks of a job: what the driver does.

The mark of the job, its query and the number of its micro-batch, is committed in the transaction itself, as the
metadata of an offset of the group that has the name of the transactional id. A driver that starts again begins a
producer first, which ends the transaction that was left, and then reads the marks: a job that is marked was written.

Invariants: a job with a mark is visible as a whole once, or not at all, however often it is tried and however many
drivers try it; a job without one is visible as a whole or not at all for each time that it is tried.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kpybroker.client import transactions
from kpybroker.client.appending import Appender
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.client.group_requests import Commit, committed
from kpybroker.client.transactions import ProducerIdentity
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import ScanError
from kpybroker.pipeline.sink.options import Mark
from kpybroker.pipeline.sink.packing import Batches

ABORT_PATIENCE_S: Final = 5.0
"""How long an abort is tried. The next driver, or the transaction's timeout, aborts it otherwise."""


def begin(client: Client, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
    """Take over a transactional id: what another driver left is aborted, and it is fenced with all its tasks."""
    return transactions.begin(client, transactional_id, timeout_ms)


def is_done(client: Client, transactional_id: str, mark: Mark | None) -> bool:
    """Whether the job is written already. It is to be asked after `begin`."""
    return mark is not None and marks(client, transactional_id).get(mark.application, -1) >= mark.version


def marks(client: Client, transactional_id: str) -> dict[str, int]:
    """The last version that was written of each application."""
    found: dict[str, int] = {}
    for commit in committed(client, transactional_id).values():
        mark = _mark_in(commit)
        if mark is not None:
            found[mark.application] = max(mark.version, found.get(mark.application, -1))
    return found


def write(client: Client, transactional_id: str, timeout_ms: int, mark: Mark | None, parts: Iterable[Batches]) -> bool:
    """Write what the tasks have packed; False if it was written before. Raises KafkaError, Unreachable."""
    parts = list(parts)
    if not any(parts):
        return True
    identity = begin(client, transactional_id, timeout_ms)
    if is_done(client, transactional_id, mark):
        return False
    with _aborting(client, identity):
        appender = Appender(client, identity)
        for part in parts:
            appender.append(part)
        _end(client, identity, mark, appender.counts)
    return True


def commit(client: Client, identity: ProducerIdentity, mark: Mark | None, claims: Iterable[Mapping[Spot, int]]) -> None:
    """Commit what tasks have written themselves under an identity. ``claims`` has the records of each task.

    Raises ScanError if two tasks wrote the same partition, KafkaError, Unreachable.
    """
    counts: dict[Spot, int] = {}
    with _aborting(client, identity):
        for claim in claims:
            for spot, count in claim.items():
                if spot in counts:
                    raise ScanError(
                        f"two tasks have rows for partition {spot}, and only one may write it: nothing was written; "
                        "use by_partition again behind the last change of rows or keys"
                    )
                counts[spot] = count
        if counts:
            _end(client, identity, mark, counts)


def abort(client: Client, transactional_id: str, timeout_ms: int) -> None:
    """Abort what is open, and fence the tasks that may still run."""
    client.hurry(ABORT_PATIENCE_S)
    with contextlib.suppress(KafkaError, Unreachable):
        begin(client, transactional_id, timeout_ms)


def _end(client: Client, identity: ProducerIdentity, mark: Mark | None, counts: Iterable[Spot]) -> None:
    if mark is not None:
        assert identity.transactional_id is not None
        offsets = {Spot(topic, 0): _commit_of(mark) for topic in {spot.topic for spot in counts}}
        transactions.commit_offsets(client, identity, identity.transactional_id, offsets)
    transactions.end(client, identity, commits=True)


@contextlib.contextmanager
def _aborting(client: Client, identity: ProducerIdentity) -> Iterator[None]:
    """Abort the transaction if the block fails, so that readers do not wait for its timeout."""
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, KafkaError) and error.code in transactions.FENCED):
            client.hurry(ABORT_PATIENCE_S)
            with contextlib.suppress(KafkaError, Unreachable):
                transactions.end(client, identity, commits=False)
        raise


def _commit_of(mark: Mark) -> Commit:
    metadata = json.dumps({"application": mark.application, "version": mark.version})
    return Commit(offset=mark.version, leader_epoch=-1, metadata=metadata)


def _mark_in(commit: Commit) -> Mark | None:
    """The mark in an offset; None if somebody else has committed it."""
    try:
        found = json.loads(commit.metadata)
        return Mark(str(found["application"]), int(found["version"]))
    except (ValueError, TypeError, KeyError):
        return None
