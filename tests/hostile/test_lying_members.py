"""Members of consumer and share groups that lie about epochs, topics, partitions and records, or have hostile patterns.

Each gets Kafka's error and costs nobody else anything. (Metrics that clients push: ``tests/telemetry``.)
"""

import pytest
from attacker import PRODUCE_VERSION, Attacker, create_topic, produce, produce_request
from watched import WatchedBroker

from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.record import Record, build_batch
from support.group_requests import beating
from support.share_group_requests import acknowledging, acquiring, sharing
from support.waiting import eventually

MIB = 1024 * 1024
UNKNOWN_ID = bytes(range(16))
ACCEPT = 1
BATCH = build_batch([Record(timestamp=1, value=b"x")])
LIES = {
    "an epoch of the future": (99, error_codes.FENCED_MEMBER_EPOCH),
    "an epoch of the past": (0, error_codes.NONE),
    "no epoch that there is": (-3, error_codes.INVALID_REQUEST),
}
REFUSED = error_codes.INVALID_REGULAR_EXPRESSION
PATTERNS = {
    "no pattern": ("(", REFUSED),
    "repetitions of repetitions": ("((a{1000}){1000}){1000}", REFUSED),
    "ten thousand classes of Unicode": ("\\pL" * 10_000, REFUSED),
    "ten thousand groups": ("(a)" * 10_000, error_codes.NONE),
    "very deep": ("(" * 16_000 + ")" * 16_000, error_codes.NONE),
}
"""With the answers. The longest are as long as a string may be in a request."""


@pytest.fixture(scope="module", autouse=True)
def _coordinators(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        create_topic(client, "lied", 4)
        one = FindCoordinatorRequest(coordinator_keys=["liars"])
        found = lambda: client.call(one, 4).coordinators[0].error_code == error_codes.NONE  # noqa: E731
        eventually(found, "the topic of the groups is there")
        ready = lambda: client.call(beating("liars", "first", 0, topics=["lied"]), 1).error_code == 0  # noqa: E731
        eventually(ready, "the coordinator is there")
        client.call(beating("liars", "first", -1), 1)


def has_joined(attacker: Attacker, group: str, topic: str) -> bool:
    """Whether a member of a share group has joined and got a partition."""
    answer = attacker.call(sharing(group, "m", 0, [topic]), 1)
    return answer.error_code == error_codes.NONE and bool(answer.assignment.topic_partitions)


@pytest.mark.parametrize("lie", LIES)
def test_a_member_that_lies_about_its_epoch_gets_kafkas_error(attacker: Attacker, lie: str) -> None:
    assert attacker.call(beating("liars", "m", 0, topics=["lied"]), 1).error_code == error_codes.NONE
    epoch, expected = LIES[lie]
    topics = ["lied"] if epoch == 0 else None
    assert attacker.call(beating("liars", "m", epoch, topics=topics), 1).error_code == expected
    assert attacker.call(beating("liars", "stranger", 1), 1).error_code == error_codes.UNKNOWN_MEMBER_ID
    assert attacker.call(beating("liars", "m", -1), 1).error_code == error_codes.NONE


def test_a_member_that_claims_partitions_of_others_takes_none(target: WatchedBroker, attacker: Attacker) -> None:
    topic_id = create_topic(attacker, "coveted", 2)
    honest = attacker.call(beating("owners", "honest", 0, topics=["coveted"]), 1)
    has = honest.assignment.topic_partitions
    before = target.memory_bytes()
    liar = attacker.call(beating("owners", "liar", 0, topics=["coveted", *(f"none-{n}" for n in range(5_000))]), 1)
    assert liar.error_code == error_codes.NONE
    everything = {topic_id: range(2), UNKNOWN_ID: range(10_000)}
    answer = attacker.call(beating("owners", "liar", liar.member_epoch, owned=everything), 1)
    assert answer.error_code == error_codes.NONE
    assert not (answer.assignment and answer.assignment.topic_partitions)  # the honest member has not given up any
    again = attacker.call(beating("owners", "honest", honest.member_epoch, owned={topic_id: [0, 1]}), 1)
    assert again.error_code == error_codes.NONE
    assert [list(each.partitions) for each in has] == [[0, 1]]
    assert target.peak_memory_bytes() - before < 150 * MIB
    for member in ("honest", "liar"):
        attacker.call(beating("owners", member, -1), 1)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_hostile_pattern_costs_little_whether_it_is_refused_or_not(
    target: WatchedBroker, attacker: Attacker, pattern: str
) -> None:
    text, expected = PATTERNS[pattern]
    target.forget_peak()
    before = target.memory_bytes()
    assert attacker.call(beating("patterns", "m", 0, subscribed_topic_regex=text), 1).error_code == expected
    assert target.peak_memory_bytes() - before < 50 * MIB


def test_records_that_a_member_never_had_are_not_acknowledged(target: WatchedBroker, attacker: Attacker) -> None:
    topic_id = create_topic(attacker, "hoarded")
    eventually(lambda: has_joined(attacker, "hoarders", "hoarded"), "the share partition has a state")
    first = attacker.call(acquiring("hoarders", "m", 0, topic_id), 2)
    assert first.error_code == error_codes.NONE
    for _ in range(3):
        produce(attacker, "hoarded", BATCH)
    epoch = 1
    while not (got := attacker.call(acquiring("hoarders", "m", epoch), 2)).responses:
        epoch += 1
    held = got.responses[0].partitions[0].acquired_records
    last = held[-1].last_offset
    before = target.memory_bytes()
    lies = [(0, 1 << 62), (last + 1, last + 5), (1 << 40, 1 << 41)]
    for number, (begin, end) in enumerate(lies, epoch + 1):
        answer = attacker.call(acknowledging("hoarders", "m", number, topic_id, (begin, end, [ACCEPT])), 2)
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        assert code in (error_codes.INVALID_REQUEST, error_codes.INVALID_RECORD_STATE)
    with Attacker(target.port) as other:
        assert other.call(acquiring("hoarders", "other", 0, topic_id), 2).error_code == error_codes.NONE
        stolen = other.call(acknowledging("hoarders", "other", 1, topic_id, (held[0].first_offset, last, [ACCEPT])), 2)
        assert stolen.responses[0].partitions[0].error_code == error_codes.INVALID_RECORD_STATE
    number = epoch + 1 + len(lies)
    kept = attacker.call(acknowledging("hoarders", "m", number, topic_id, (held[0].first_offset, last, [ACCEPT])), 2)
    assert (kept.error_code, kept.responses[0].partitions[0].error_code) == (0, 0)
    assert target.peak_memory_bytes() - before < 50 * MIB


def test_a_member_that_keeps_its_records_locks_a_bounded_number(attacker: Attacker) -> None:
    topic_id = create_topic(attacker, "held")
    eventually(lambda: has_joined(attacker, "holders", "held"), "the share partition has a state")
    assert attacker.call(acquiring("holders", "m", 0, topic_id), 2).error_code == error_codes.NONE
    for _ in range(2_100):
        attacker.send(produce_request("held", BATCH), PRODUCE_VERSION)
    assert attacker.drain()
    count, epoch, idle = 0, 1, 0
    while idle < 3:
        answer = attacker.call(acquiring("holders", "m", epoch, max_records=10_000, max_wait_ms=0), 2)
        found = answer.responses[0].partitions[0].acquired_records if answer.responses else []
        count += sum(each.last_offset - each.first_offset + 1 for each in found)
        epoch, idle = epoch + 1, 0 if found else idle + 1
    assert 2_000 <= count < 2_100
