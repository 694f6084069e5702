"""Bounds on what a principal may create: who is refused when, what is counted for whom, and what survives."""

from typing import Any

from controller_requests import create, topic, widen
from controller_world import ControllerWorld
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.machines.controller.state import ControllerRequest
from kpybroker.machines.controller.topic_bounds import MAX_PARTITIONS, TopicBounds
from kpybroker.machines.metadata.creator import MARK_BYTES, mark_of
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.runtime.calls.principal import USER, Principal
from kpywire import error_codes
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.uuid import ZERO_UUID

ALICE, BOB, ROOT = (Principal(USER, name) for name in ("alice", "bob", "root"))


def world_with(max_topics: int = 0, max_partitions: int = 0) -> ControllerWorld:
    bounds = TopicBounds(max_topics, max_partitions, frozenset({ROOT}))
    return ControllerWorld(topic_bounds=bounds).start_brokers(1)


def send(world: ControllerWorld, principal: Principal, message: Any) -> Any:
    effects = world.decide(ControllerRequest(object(), message, type(message).VERSIONS[-1], principal))
    ((_, response),) = effects.replies
    return response


def made(world: ControllerWorld, principal: Principal, *names: str, partitions: int = 1, **options: Any) -> list[int]:
    """The error codes of new topics."""
    request = create(*(topic(name, partitions=partitions, replication_factor=1) for name in names), **options)
    return [result.error_code for result in send(world, principal, request).topics]


def grown(world: ControllerWorld, principal: Principal, name: str, count: int) -> tuple[int, str | None]:
    (result,) = send(world, principal, widen((name, count, None))).results
    return result.error_code, result.error_message


def deleted(world: ControllerWorld, name: str) -> None:
    wanted = [DeleteTopicState(name=name, topic_id=ZERO_UUID)]
    (result,) = send(world, ROOT, DeleteTopicsRequest(topics=wanted, timeout_ms=1_000)).responses
    assert result.error_code == 0


REFUSED = error_codes.POLICY_VIOLATION


def test_a_principal_creates_topics_up_to_its_bound_and_others_theirs() -> None:
    world = world_with(max_topics=2)
    assert made(world, ALICE, "a", "b", "c") == [0, 0, REFUSED]
    assert made(world, BOB, "d") == [0]
    assert made(world, ALICE, "e") == [REFUSED]
    deleted(world, "a")
    assert made(world, ALICE, "e", "f") == [0, REFUSED]


def test_the_error_says_what_there_is_and_which_key_bounds_it() -> None:
    world = world_with(max_topics=1, max_partitions=9)
    request = create(*(topic(name, partitions=3, replication_factor=1) for name in ("a", "b")))
    _, refused = send(world, ALICE, request).topics
    assert refused.error_message == (
        "User:alice has created 1 topics, and may have 1 (kpybroker.max.topics.per.principal)."
    )
    assert grown(world, ALICE, "a", 10) == (
        REFUSED,
        "User:alice has 3 partitions; with 7 more there would be more than 9 (kpybroker.max.partitions.per.principal).",
    )


def test_partitions_count_over_all_topics_of_their_creator_whoever_adds_them() -> None:
    world = world_with(max_partitions=5)
    assert made(world, ALICE, "a", "b", partitions=2) == [0, 0]
    assert made(world, ALICE, "c", partitions=2) == [REFUSED]
    assert grown(world, BOB, "a", 4) == (
        REFUSED,
        f"The creator of topic a has 4 partitions; with 2 more there would be more than 5 ({MAX_PARTITIONS}).",
    )
    assert grown(world, BOB, "a", 3)[0] == 0
    assert made(world, BOB, "d", partitions=5) == [0]
    assert grown(world, ALICE, "b", 3)[0] == REFUSED


def test_super_users_and_topics_of_coordinators_are_exempt() -> None:
    world = world_with(max_topics=1, max_partitions=1)
    assert made(world, ROOT, "a", "b", partitions=7) == [0, 0]
    assert made(world, ALICE, GROUP_OFFSETS_TOPIC, partitions=50) == [0]
    assert made(world, ALICE, "c") == [0]
    assert grown(world, ROOT, "c", 9)[0] == 0
    assert grown(world, ALICE, GROUP_OFFSETS_TOPIC, 60)[0] == 0


def test_a_topic_without_a_known_creator_counts_alone() -> None:
    world = world_with(max_partitions=4)
    assert made(world, ROOT, "old", "older", partitions=3) == [0, 0]
    assert grown(world, ALICE, "old", 5)[0] == REFUSED
    assert grown(world, ALICE, "old", 4)[0] == 0
    assert made(world, ALICE, "a", partitions=4) == [0]


def test_a_validated_creation_counts_within_its_request_only() -> None:
    world = world_with(max_topics=2)
    assert made(world, ALICE, "a", "b", "c", validate_only=True) == [0, 0, REFUSED]
    assert made(world, ALICE, "a", "b") == [0, 0]


def test_without_a_bound_ids_have_no_mark() -> None:
    world = ControllerWorld().start_brokers(1)
    assert made(world, ALICE, "a") == [0]
    assert world.image.topics["a"].id[-MARK_BYTES:] != mark_of(str(ALICE))


MOST_TOPICS, MOST_PARTITIONS = 3, 7


class Bounded(RuleBasedStateMachine):
    """Any requests by several principals, and controllers that take over: as if every topic knew its creator."""

    def __init__(self) -> None:
        super().__init__()
        self.world = world_with(MOST_TOPICS, MOST_PARTITIONS)
        self.creators: dict[str, Principal] = {}
        self.partitions: dict[str, int] = {}

    def of(self, principal: Principal) -> tuple[int, int]:
        names = [name for name, creator in self.creators.items() if creator == principal]
        return len(names), sum(self.partitions[name] for name in names)

    @rule(principal=st.sampled_from([ALICE, BOB]), name=st.sampled_from("abcdefgh"), partitions=st.integers(1, 5))
    def create(self, principal: Principal, name: str, partitions: int) -> None:
        if name not in self.creators:
            topics, present = self.of(principal)
            fits = topics < MOST_TOPICS and present + partitions <= MOST_PARTITIONS
            assert made(self.world, principal, name, partitions=partitions) == [0 if fits else REFUSED]
            if fits:
                self.creators[name], self.partitions[name] = principal, partitions

    @rule(principal=st.sampled_from([ALICE, BOB]), name=st.sampled_from("abcdefgh"), more=st.integers(1, 4))
    def grow(self, principal: Principal, name: str, more: int) -> None:
        if name in self.creators:
            fits = self.of(self.creators[name])[1] + more <= MOST_PARTITIONS
            code, _ = grown(self.world, principal, name, self.partitions[name] + more)
            assert code == (0 if fits else REFUSED)
            self.partitions[name] += more if fits else 0

    @rule(name=st.sampled_from("abcdefgh"))
    def delete(self, name: str) -> None:
        if self.creators.pop(name, None) is not None:
            del self.partitions[name]
            deleted(self.world, name)

    @rule()
    def fail_over(self) -> None:
        """Another controller begins with the log alone."""
        before, bounds = self.world.log, TopicBounds(MOST_TOPICS, MOST_PARTITIONS, frozenset({ROOT}))
        self.world = ControllerWorld(topic_bounds=bounds)
        self.world.write(before[len(self.world.log) :])
        self.world.heartbeat(1)

    @invariant()
    def holds(self) -> None:
        assert {name: len(found.partitions) for name, found in self.world.image.topics.items()} == self.partitions


Bounded.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestBounded = Bounded.TestCase
