"""Fetch (1), versions 4-18: records as slices of the log, waiting for them, and fetch sessions (KIP-227).

v9 leader epoch fencing (KIP-320); v12 divergence (KIP-595); v13 topic ids (KIP-516); v15 replica_state (KIP-903).
How partitions are read is in `kpybroker.handlers.reading`.
"""

from collections.abc import Collection, Generator
from functools import partial

from kpybroker.errors import KafkaError
from kpybroker.fetch.session import NO_SESSION, Entry, Session
from kpybroker.fetch.sessions import FINAL_EPOCH, FULL
from kpybroker.fetch.standing import NotRemembered, Outside, Standing
from kpybroker.handlers import unopened_logs
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.reading import Reading
from kpybroker.handlers.reading_again import ReadingAgain
from kpybroker.handlers.reading_for_replicas import ReplicaReading
from kpybroker.partition.role import READ_COMMITTED, READ_UNCOMMITTED
from kpybroker.server.pending import Pending
from kpywire import error_codes
from kpywire.fetch import REPLICA_STATE_FROM, TOPIC_IDS_FROM, PackedTopic, codec_for
from kpywire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
MOST_AT_ONCE = 64
"""Partitions of a full request that are read in one piece."""
MOST_NOTED = 200
"""Partitions of a reader without a session whose positions are remembered, for its lag."""

codec = codec_for


def handle(broker: Context, request: FetchRequest, call: Call) -> FetchResponse | Pending:
    """Read what the session's partitions have to offer, now or when there is enough of it."""
    version = call.api_version
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    if request.topics and type(request.topics[0]) is PackedTopic and request.session_epoch == FINAL_EPOCH:
        again = _again(broker, request, call) if replica_id < 0 else None
        if again is not None:
            return _when_opened(broker, call, again, again.session.changed)
    count = 0
    if request.session_epoch in FULL:
        for topic in request.topics:
            count += topic.count if type(topic) is PackedTopic else len(topic.partitions)
    if count > MOST_AT_ONCE:
        work = _answer_in_steps(broker, request, call, replica_id)
        response: FetchResponse | Pending = call.connection.server.slices.begin(work, call.connection)
        return response
    now_ms = broker.scheduler.monotonic_ms()
    try:
        session, incremental = broker.fetch_sessions.begin(request, version >= TOPIC_IDS_FROM, replica_id >= 0, now_ms)
    except KafkaError as error:
        return FetchResponse(throttle_time_ms=0, error_code=error.code, responses=[])
    if request.isolation_level not in ISOLATION_LEVELS and _reads_anything(broker, session):
        if not incremental:
            broker.fetch_sessions.end(session)
        return _failed(request, version)
    if not incremental:
        _note_reader(session, call, is_follower=replica_id >= 0)
    reads = Reading if replica_id < 0 else ReplicaReading
    reading = reads(broker, request, session, incremental, replica_id, call)
    if incremental:
        return reading.answer(session.changed)
    return _when_opened(broker, call, reading, session.entries.values())


def _answer_in_steps(
    broker: Context, request: FetchRequest, call: Call, replica_id: int
) -> Generator[None, None, FetchResponse | Pending]:
    """The answer to a full request for many partitions."""
    version, now_ms, is_follower = call.api_version, broker.scheduler.monotonic_ms(), replica_id >= 0
    sessions = broker.fetch_sessions
    session = yield from sessions.begin_in_steps(request, version >= TOPIC_IDS_FROM, is_follower, now_ms)
    if request.isolation_level not in ISOLATION_LEVELS and _reads_anything(broker, session):
        sessions.end(session)
        return _failed(request, version)
    _note_reader(session, call, is_follower=is_follower)
    reads = Reading if replica_id < 0 else ReplicaReading
    reading = reads(broker, request, session, False, replica_id, call)
    yield
    return (yield from _in_steps(broker, reading, session.entries.values()))


def _in_steps(
    broker: Context, reading: Reading, entries: Collection[Entry]
) -> Generator[None, None, FetchResponse | Pending]:
    yield from unopened_logs.bring_up(unopened_logs.unopened(broker, [(each.topic, (each.index,)) for each in entries]))
    return (yield from reading.answer_in_steps(entries))


def _when_opened(broker: Context, call: Call, reading: Reading, entries: Collection[Entry]) -> FetchResponse | Pending:
    """The answer, after logs among these were opened if they are many."""
    if len(entries) > unopened_logs.FEW:
        new = unopened_logs.unopened(broker, [(entry.topic, (entry.index,)) for entry in entries])
        if new:
            response: FetchResponse | Pending = unopened_logs.begin(call, new, partial(reading.answer, entries))
            return response
    return reading.answer(entries)


def _again(broker: Context, request: FetchRequest, call: Call) -> ReadingAgain | None:
    """The reading of a large request without a session, of what its connection has read before; None if that cannot
    be remembered."""
    if request.session_id != NO_SESSION or request.isolation_level not in ISOLATION_LEVELS:
        return None
    connection, version = call.connection, call.api_version
    outside: Outside | None = connection.reading
    standing = None if outside is None else outside.standing
    if standing is None or (standing.version, standing.isolation) != (version, request.isolation_level):
        room = broker.fetch_sessions.standing_room
        standing = Standing(version, request.isolation_level, version >= TOPIC_IDS_FROM, room)
        _read_outside(call, Outside(call.client_id, (), standing))
    try:
        topics = standing.take(request.topics)  # type: ignore[arg-type]
    except NotRemembered:
        _read_outside(call, None)
        return None
    assert connection.reading is not None
    few = len(standing.session.entries) <= MOST_NOTED
    connection.reading.entries = list(standing.session.entries.values()) if few else ()
    return ReadingAgain(broker, request, standing.session, topics, call)


def _note_reader(session: Session, call: Call, *, is_follower: bool) -> None:
    """Remember who reads this, for its lag: in the session, or on the connection of those who have none."""
    session.client_id = call.client_id
    outside = session.id == NO_SESSION and not is_follower and len(session.entries) <= MOST_NOTED
    _read_outside(call, Outside(call.client_id, list(session.entries.values())) if outside else None)


def _read_outside(call: Call, outside: Outside | None) -> None:
    """The connection reads something else outside of sessions, or nothing."""
    before: Outside | None = call.connection.reading
    if before is not None and before.standing is not None:
        before.close()
    call.connection.reading = outside


def _reads_anything(broker: Context, session: Session) -> bool:
    """Whether any partition of the session is there: Kafka looks at the isolation level only then."""
    for entry in session.entries.values():
        try:
            broker.replicas.find(entry.topic, entry.index)
        except KafkaError:
            continue
        return True
    return False


def _failed(request: FetchRequest, version: int) -> FetchResponse:
    """Kafka's answer to a request that it cannot make sense of."""
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
