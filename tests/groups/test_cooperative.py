"""Cooperative rebalancing (KIP-429): members keep what they have while others join, as their assignor tells them.

The coordinator knows nothing of it. What it has to do is to let members commit and heartbeat meanwhile, and to begin a
rebalance when a member says that it owns something else.
"""

from random import Random

import pytest
from group_world import GroupWorld, Ticket

from kpywire import error_codes
from kpywire.codec import decode, encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition

PARTITIONS = 12
ROUNDS = 30


def subscription(owned: set[int]) -> bytes:
    topics = [TopicPartition(topic="t", partitions=sorted(owned))]
    return b"\0\1" + encode(ConsumerProtocolSubscription(topics=["t"], owned_partitions=topics), 1)


def owned_in(metadata: bytes) -> set[int]:
    notified = decode(ConsumerProtocolSubscription, 1, metadata, 2)
    return {partition for each in notified.owned_partitions for partition in each.partitions}


class Consumer:
    """A client with a cooperative assignor: it gives up what it is no longer assigned, and then joins again."""

    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.owned: set[int] = set()
        self.generation_id = 0
        self.member_id = world.join(protocols=self.protocols()).response.member_id
        self.joining: Ticket | None = None
        self.syncing: Ticket | None = None
        self.join()

    def protocols(self) -> dict[str, bytes]:
        return {"cooperative-sticky": subscription(self.owned)}

    def join(self) -> None:
        self.joining = self.world.join(self.member_id, protocols=self.protocols(), session_ms=1_800_000)

    def step(self) -> None:
        if self.joining is not None:
            if self.joining.is_answered:
                response, self.joining = self.joining.response, None
                assert response.error_code == error_codes.NONE
                self.generation_id = response.generation_id
                plan = {each.member_id: bytes(sorted(mine)) for each, mine in assign(response.members)}
                self.syncing = self.world.sync(self.member_id, self.generation_id, plan)
        elif self.syncing is not None:
            if self.syncing.is_answered:
                response, self.syncing = self.syncing.response, None
                if response.error_code == error_codes.REBALANCE_IN_PROGRESS:
                    self.join()
                    return
                assert response.error_code == error_codes.NONE
                assigned = set(response.assignment)
                gives_up = self.owned - assigned
                self.owned = assigned
                if gives_up:
                    self.join()
        elif self.world.heartbeat(self.member_id, self.generation_id) == error_codes.REBALANCE_IN_PROGRESS:
            self.join()


def assign(members: list) -> list:  # type: ignore[type-arg]
    """Fair shares, but nothing that another one still owns."""
    if not members:
        return []
    owned = {each.member_id: owned_in(each.metadata) for each in members}
    taken = set().union(*owned.values())
    share = -(-PARTITIONS // len(members))
    kept = {each.member_id: set(sorted(owned[each.member_id])[:share]) for each in members}
    free = sorted(set(range(PARTITIONS)) - taken)
    for each in members:
        while free and len(kept[each.member_id]) < share:
            kept[each.member_id].add(free.pop())
    return [(each, kept[each.member_id]) for each in members]


@pytest.mark.parametrize("seed", range(5))
def test_no_partition_has_two_owners_while_members_come_and_go(seed: int) -> None:
    rng = Random(seed)
    world = GroupWorld()
    consumers = [Consumer(world)]
    for _ in range(ROUNDS):
        if rng.random() < 0.5 and len(consumers) < 5:
            consumers.append(Consumer(world))
        elif rng.random() < 0.3 and len(consumers) > 1:
            gone = consumers.pop(rng.randrange(len(consumers)))
            gone.owned.clear()
            world.leave((gone.member_id, None))
        for _ in range(rng.randrange(12)):
            rng.choice(consumers).step()
            world.advance(rng.choice((0, 500)))
            owned = [partition for consumer in consumers for partition in consumer.owned]
            assert len(owned) == len(set(owned))
    for _ in range(200):
        for consumer in consumers:
            consumer.step()
        world.advance(500)
    assert sorted(partition for each in consumers for partition in each.owned) == list(range(PARTITIONS))
    assert world.describe().group_state == "Stable"


def test_a_member_goes_on_while_others_join() -> None:
    world = GroupWorld()
    first = Consumer(world)
    world.advance(3_000)
    for _ in range(2):
        first.step()
    assert first.owned == set(range(PARTITIONS))
    Consumer(world)
    assert world.commit({("t", 0): 1}, first.member_id, first.generation_id) == {error_codes.NONE}
    assert world.heartbeat(first.member_id, first.generation_id) == error_codes.REBALANCE_IN_PROGRESS
