"""How late the event loop is while the broker assigns many partitions to many members (KIP-848), and when they rest.

    python -m benchmarks.groups.assigning [--members 1000] [--partitions 10000] [--rounds 5]

The members are sockets in this process, and in step, as in `members`: each phase is one heartbeat of everybody.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import click

from benchmarks.groups.members import Group, Member, broker, ready, timed
from kpywire import api, error_codes
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest

VERSION: Final = 1
CREATE_TOPICS_VERSION: Final = 7
TOPICS: Final = 2
"""One request creates fewer than 10 000 partitions."""
INTERVAL_S: Final = 1.1
"""A little longer than ``group.consumer.assignment.interval.ms``."""
REBALANCE_MS: Final = 60_000


class BeatingGroup(Group):
    """Members of the consumer protocol."""

    def __init__(self, port: int) -> None:
        super().__init__(port, b"")
        self.topics = [f"many-{number}" for number in range(TOPICS)]
        self.owned: dict[Member, list[Any]] = {}
        self.tells: set[Member] = set()
        """The members whose next heartbeat says what they own."""

    def create(self, partitions: int) -> None:
        """Create the topics, with this number of partitions together."""
        topics = [
            CreatableTopic(
                name=name, num_partitions=partitions // TOPICS, replication_factor=1, assignments=[], configs=[]
            )
            for name in self.topics
        ]
        for topic in topics:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=REBALANCE_MS)
            answers = self.ask(self.members[:1], lambda _: request, api.CREATE_TOPICS, CREATE_TOPICS_VERSION)  # noqa: B023
            assert [each.topics[0].error_code for each in answers.values()] == [error_codes.NONE]

    def beat(self) -> int:
        """A heartbeat of each member; how many partitions they own then."""
        for member, answer in self.ask(self.members, self._heartbeat, api.CONSUMER_GROUP_HEARTBEAT, VERSION).items():
            assert answer.error_code == error_codes.NONE, answer
            member.generation = answer.member_epoch
            self.tells.discard(member)
            if answer.assignment is not None:
                self.owned[member] = answer.assignment.topic_partitions
                self.tells.add(member)
        return sum(len(topic.partitions) for owned in self.owned.values() for topic in owned)

    def _heartbeat(self, member: Member) -> ConsumerGroupHeartbeatRequest:
        joins = member.generation <= 0
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in self.owned.get(member, ())
        ]
        return ConsumerGroupHeartbeatRequest(
            group_id="many",
            member_id=member.id,
            member_epoch=max(member.generation, 0),
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=self.topics if joins else None,
            topic_partitions=owned if joins or member in self.tells else None,
        )


@click.command()
@click.option("--members", default=1_000, show_default=True)
@click.option("--partitions", default=10_000, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Heartbeats at rest.")
def main(members: int, partitions: int, rounds: int) -> None:
    with broker() as (port, lag):
        ready(port)
        group = BeatingGroup(port)
        for number in range(members):
            group.add().id = f"member-{number}"
        group.create(partitions)
        time.sleep(INTERVAL_S)  # the topics have leaders
        lag()
        print(f"{'':28} {'seconds':>8}  {'owned':>6}  loop lag of the broker")

        def phase(title: str, work: Callable[[], int]) -> int:
            owned, took_s = timed(work)
            print(f"{title:28} {took_s:8.3f}  {owned:6}  {lag()}")
            return owned

        owned = phase(f"{members} join", group.beat)
        time.sleep(INTERVAL_S)
        lag()
        turns = 0
        while owned < partitions or group.tells:
            turns += 1
            owned = phase(f"turn {turns}", group.beat)
        for number in range(1, rounds + 1):
            phase(f"at rest {number}", group.beat)


if __name__ == "__main__":
    main()
