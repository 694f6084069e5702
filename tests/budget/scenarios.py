"""The fixed workload: which requests are counted, each on one connection, one after the other."""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.raw import frames, grouping, many
from benchmarks.raw.asking import Address, Conversation
from support.waiting import attempts, becomes, eventually

CONFIGS = {"segment.bytes": str(1 << 30)}
SMALL_BYTES = 213
MEGABYTE = 1 << 20
GROUP = "budget"
BATCHES_OF_A_MEGABYTE = 10
SHORT_BYTES = 40_000
"""More than is copied, and less than a socket takes at once."""
PARTITIONS = 50
TOPICS = 100
TOLERANCES = {
    "produce of 213 B": 0.05,
    "produce of 100 records of 1 KB": 0.08,
    "fetch of 1 MB": 0.5,
    "metadata of all topics": 0.15,
}
"""The share by which work may grow where it depends on time: whether a request waited; in how many pieces a large
request comes or a large answer out, as the peer writes and reads; how often a request that is worked on a millisecond
at a time gives way."""


class Scenario(NamedTuple):
    """``requests`` gives one frame after the other; ``checked`` raises ValueError for a wrong answer."""

    name: str
    requests: Iterator[bytes]
    checked: Callable[[bytes], None]


def scenarios(conversation: Conversation, now_ms: int) -> Iterator[Scenario]:
    """Makes the topics and the group that they need, as they are needed."""
    create(conversation, {"one": 1, "large": 1, "read": 1, "wide": PARTITIONS})
    small, large = frames.batch_of_bytes(SMALL_BYTES, now_ms), frames.batch([b"x" * 1000] * 100, now_ms)
    yield always("produce of 213 B", frames.produce("one", [0], small))
    yield always("produce of 100 records of 1 KB", frames.produce("large", [0], large))
    yield always("produce of 213 B to 50 partitions", frames.produce("wide", range(PARTITIONS), small))
    create(conversation, {"short": 1})
    yield fetch_of(conversation, "short", SHORT_BYTES, frames.batch([b"x" * 1000] * (SHORT_BYTES // 1000), now_ms))
    yield fetch_of(conversation, "read", MEGABYTE, large)
    yield fetch_of_nothing_new(conversation)
    create(conversation, {f"topic-{number}": 1 for number in range(TOPICS)})
    yield always("metadata of all topics", frames.Produce(many.client_metadata(), (4 + 1,)))
    yield heartbeat(conversation)
    yield always("offset commit", grouping.offset_commit(GROUP + "-alone", "one", 0, 1))


def always(name: str, asked: frames.Produce) -> Scenario:
    """The same request again and again, whose answer has no error code at the places that it names."""

    def checked(answer: bytes) -> None:
        codes = [struct.unpack_from(">h", answer, offset)[0] for offset in asked.error_offsets]
        if any(codes):
            raise ValueError(f"{name}: error codes {codes}")

    return Scenario(name, repeated(asked.frame), checked)


def fetch_of(conversation: Conversation, topic: str, size_bytes: int, batch: bytes) -> Scenario:
    """From the start of a log, outside of a session."""
    name = "fetch of 1 MB" if size_bytes == MEGABYTE else f"fetch of {size_bytes // 1000} KB"
    writing = always("filling", frames.produce(topic, [0], batch))
    for _ in range(2 * BATCHES_OF_A_MEGABYTE):
        writing.checked(conversation.ask(next(writing.requests)))
    asked = frames.fetch(topic, 0, 0, max_bytes=size_bytes, min_bytes=1, max_wait_ms=500)

    def checked(answer: bytes) -> None:
        if len(answer) < size_bytes * 9 // 10:
            raise ValueError(f"a Fetch answers {len(answer)} bytes")

    return Scenario(name, repeated(asked.frame), checked)


def fetch_of_nothing_new(conversation: Conversation) -> Scenario:
    """A fetch of a session of 50 partitions, which the request does not name any more."""

    ((_, end), *_) = many.listed_offsets(conversation.ask(many.latest_offsets({"wide": PARTITIONS})))

    def fetch(session: tuple[int, int], partitions: many.Partitions) -> bytes:
        return many.fetch(partitions, offset=end, session=session, partition_bytes=MEGABYTE, max_wait_ms=0)

    code, session_id = many.fetched_session(conversation.ask(fetch((0, 0), {"wide": range(PARTITIONS)})))
    if code or not session_id:
        raise ValueError(f"no session is opened: error code {code}")

    def requests() -> Iterator[bytes]:
        epoch = 1
        while True:
            yield fetch((session_id, epoch), {})
            epoch += 1

    def checked(answer: bytes) -> None:
        if many.fetched_session(answer) != (0, session_id) or len(answer) >= SMALL_BYTES:
            raise ValueError(f"a Fetch of a session answers {many.fetched_session(answer)}")

    return Scenario("fetch of nothing new in a session", requests(), checked)


def heartbeat(conversation: Conversation) -> Scenario:
    """A heartbeat of the only member of a group."""
    eventually(lambda: not grouping.error_of(conversation.ask(grouping.find_coordinator(GROUP))), "a coordinator")
    member_id = ""
    for _ in attempts("a member of the group"):
        seen = grouping.joined(conversation.ask(grouping.join_group(GROUP, member_id, b"")))
        if not seen.error_code:
            break
        member_id = seen.member_id or member_id
    conversation.ask(grouping.sync_group(GROUP, seen.generation, member_id, {member_id: b"all"}))

    def checked(answer: bytes) -> None:
        if grouping.error_of(answer):
            raise ValueError(f"a heartbeat answers error code {grouping.error_of(answer)}")

    return Scenario("heartbeat", repeated(grouping.heartbeat(GROUP, seen.generation, member_id)), checked)


def create(conversation: Conversation, topics: dict[str, int]) -> None:
    """Raises ValueError when they are not there."""
    errors = many.created_errors(conversation.ask(many.create_topics(topics, CONFIGS)))
    if any(errors.values()):
        raise ValueError(f"topics are not created: {errors}")
    becomes(lambda: many.led_partitions(conversation.ask(many.metadata(list(topics)))), topics)


def repeated(frame: bytes) -> Iterator[bytes]:
    while True:
        yield frame


def conversation_with(port: int) -> Conversation:
    return Conversation(Address("127.0.0.1", port))
