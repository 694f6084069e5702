"""Fetch (1), versions 4-18: return records as slices of the log, wait for them, and keep fetch sessions (KIP-227).

With an authorizer a client needs READ on each topic, at each fetch; another broker needs CLUSTER_ACTION. Else each
partition is TOPIC_AUTHORIZATION_FAILED, whether it exists or not; an unknown topic id is UNKNOWN_TOPIC_ID.

v9 leader epoch fencing (KIP-320); v12 divergence (KIP-595); v13 topic ids (KIP-516); v15 replica_state (KIP-903).
`kpybroker.requests.serving.reading` reads the partitions.
"""

from collections.abc import Callable, Collection, Generator
from functools import partial
from itertools import islice
from typing import Final

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.remembered import NotRemembered, RememberedFetch, SessionlessFetch
from kpybroker.machines.fetch.session import NO_SESSION, CachedPartition, FetchSession
from kpybroker.machines.fetch.sessions import FINAL_EPOCH, FULL
from kpybroker.machines.partition.role import READ_COMMITTED, READ_UNCOMMITTED
from kpybroker.requests.serving import unopened_logs
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.permissions import may_on_cluster
from kpybroker.requests.serving.reading.answer import FetchAnswer, Ledger, Policy
from kpybroker.requests.serving.reading.client import ClientRead
from kpybroker.requests.serving.reading.reader import FetchReader
from kpybroker.requests.serving.reading.replica import ReplicaRead
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpywire import error_codes
from kpywire.fetch import REPLICA_STATE_FROM, TOPIC_IDS_FROM, PackedTopic, codec_for
from kpywire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
MOST_AT_ONCE = 64
"""The most partitions of a full request that are read in one piece."""
MOST_NOTED: Final = 200
"""The most partitions of a reader without a session whose positions are remembered, for its lag."""

codec = codec_for


def handle(broker: Context, request: FetchRequest, call: Call) -> FetchResponse | Pending:
    """Read the session's partitions. Answer now, or when there is enough data."""
    version = call.api_version
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    if request.topics and type(request.topics[0]) is PackedTopic and request.session_epoch == FINAL_EPOCH:
        remembered = _remembered(broker, request, call) if replica_id < 0 else None
        if remembered is not None:
            return _read_remembered(broker, request, call, *remembered)
    sessions, now_ms = broker.fetch_sessions, broker.scheduler.monotonic_ms()
    uses_ids, is_follower = version >= TOPIC_IDS_FROM, replica_id >= 0
    if request.session_epoch in FULL:
        count = len(request.topics)
        for topic in request.topics if count <= MOST_AT_ONCE else ():
            count += topic.count if type(topic) is PackedTopic else len(topic.partitions)
        if count > MOST_AT_ONCE:
            response: FetchResponse | Pending = call.peer.share(_read_in_steps(broker, request, call, replica_id))
            return response
        session = sessions.begin(request, uses_ids=uses_ids, is_follower=is_follower, now_ms=now_ms)
        incremental = False
    else:
        try:
            session = sessions.resume(request, uses_ids=uses_ids, now_ms=now_ms)
        except KafkaError as error:
            return FetchResponse(throttle_time_ms=0, error_code=error.code, responses=[])
        incremental = session.id != NO_SESSION
    policy = _policy(broker, request, session, replica_id, call)
    if request.isolation_level not in ISOLATION_LEVELS and _reads_anything(broker, session, policy):
        if not incremental:
            sessions.end(session)
        return _failed(request, version)
    reader = FetchReader(broker, request, policy, FetchAnswer(sessions, session, incremental=incremental), call)
    if incremental:
        return reader.read(session.changed)
    _note_reader(session, call, is_follower=is_follower)
    entries = session.entries.values()
    if len(entries) > unopened_logs.FEW:
        return _when_opened(broker, call, entries, partial(reader.read, entries))
    return reader.read(entries)


def _policy(broker: Context, request: FetchRequest, session: FetchSession, replica_id: int, call: Call) -> Policy:
    """The policy for the sender. Another broker needs CLUSTER_ACTION: else nothing is noted and nothing is read."""
    if replica_id < 0:
        return ClientRead(broker, request, call)
    if may_on_cluster(broker, call, AclOperation.CLUSTER_ACTION):
        return ReplicaRead(broker, request, session, replica_id, call)
    return ClientRead(broker, request, call, is_shut_out=True)


def _read_in_steps(
    broker: Context, request: FetchRequest, call: Call, replica_id: int
) -> Generator[None, None, FetchResponse | Pending]:
    """The answer to a full request for many partitions."""
    version, now_ms, is_follower = call.api_version, broker.scheduler.monotonic_ms(), replica_id >= 0
    uses_ids, sessions = version >= TOPIC_IDS_FROM, broker.fetch_sessions
    session = yield from sessions.begin_in_steps(request, uses_ids=uses_ids, is_follower=is_follower, now_ms=now_ms)
    policy = _policy(broker, request, session, replica_id, call)
    if request.isolation_level not in ISOLATION_LEVELS and _reads_anything(broker, session, policy):
        sessions.end(session)
        return _failed(request, version)
    _note_reader(session, call, is_follower=is_follower)
    reader = FetchReader(broker, request, policy, FetchAnswer(sessions, session, incremental=False), call)
    yield
    entries = session.entries.values()
    all_entries = iter(list(entries))
    while some := list(islice(all_entries, STEP_ELEMENTS)):
        yield
        places = [(entry.topic, (entry.index,)) for entry in some]
        yield from unopened_logs.bring_up(unopened_logs.unopened(broker, places))
    return (yield from reader.read_in_steps(entries))


def _read_remembered(
    broker: Context, request: FetchRequest, call: Call, session: FetchSession, ledger: Ledger
) -> FetchResponse | Pending:
    """Read what changed since the connection's last request, in the order of this one."""
    answer, changed = FetchAnswer(broker.fetch_sessions, session, ledger=ledger), session.changed
    reader = FetchReader(broker, request, ClientRead(broker, request, call), answer, call)
    if len(changed) > unopened_logs.FEW:
        return _when_opened(broker, call, changed, lambda: reader.read(ledger.in_order(changed)))
    return reader.read(ledger.in_order(changed) if changed else ())


def _when_opened(
    broker: Context, call: Call, entries: Collection[CachedPartition], read: Callable[[], FetchResponse | Pending]
) -> FetchResponse | Pending:
    """Read many entries. If many of their logs are not open, these are opened first."""
    new = unopened_logs.unopened(broker, [(entry.topic, (entry.index,)) for entry in entries])
    if not new:
        return read()
    response: FetchResponse | Pending = unopened_logs.begin(call, new, read)
    return response


def _remembered(broker: Context, request: FetchRequest, call: Call) -> tuple[FetchSession, Ledger] | None:
    """The ledger of a large request without a session, with what its connection has read before. None if that cannot
    be remembered."""
    if request.session_id != NO_SESSION or request.isolation_level not in ISOLATION_LEVELS:
        return None
    client, version = call.client, call.api_version
    sessionless: SessionlessFetch | None = client.reading
    remembered = None if sessionless is None else sessionless.remembered
    if remembered is None or (remembered.version, remembered.isolation) != (version, request.isolation_level):
        budget = broker.fetch_sessions.remembered_budget
        remembered = RememberedFetch(version, request.isolation_level, budget, uses_ids=version >= TOPIC_IDS_FROM)
        _read_sessionless(call, SessionlessFetch(call.client_id, (), remembered))
    try:
        topics = remembered.take(request.topics)  # type: ignore[arg-type]
    except NotRemembered:
        _read_sessionless(call, None)
        return None
    assert client.reading is not None
    few = len(remembered.session.entries) <= MOST_NOTED
    client.reading.entries = list(remembered.session.entries.values()) if few else ()
    return remembered.session, Ledger(topics, version)


def _note_reader(session: FetchSession, call: Call, *, is_follower: bool) -> None:
    """Remember the reader of these partitions, for its lag: in the session, or on the connection if there is none."""
    session.client_id = call.client_id
    sessionless = session.id == NO_SESSION and not is_follower and len(session.entries) <= MOST_NOTED
    _read_sessionless(call, SessionlessFetch(call.client_id, list(session.entries.values())) if sessionless else None)


def _read_sessionless(call: Call, sessionless: SessionlessFetch | None) -> None:
    """Replace the partitions that the connection reads outside of sessions; None if it reads none."""
    before: SessionlessFetch | None = call.client.reading
    if before is not None and before.remembered is not None:
        before.close()
    call.client.reading = sessionless


def _reads_anything(broker: Context, session: FetchSession, policy: Policy) -> bool:
    """Whether any partition of the session exists, among those that the sender may read: only then does Kafka check the
    isolation level. Others must not learn from it which topics there are."""
    for entry in session.entries.values():
        try:
            broker.replicas.find(entry.topic, entry.index)
        except KafkaError:
            continue
        if not policy.is_forbidden(entry):
            return True
    return False


def _failed(request: FetchRequest, version: int) -> FetchResponse:
    """Kafka's answer to a request with an unknown isolation level."""
    code = error_codes.UNKNOWN_SERVER_ERROR
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(
                    partition_index=partition.partition,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in (request.topics if version < TOPIC_IDS_FROM else [])
    ]
    return FetchResponse(throttle_time_ms=0, error_code=code, session_id=request.session_id, responses=responses)
