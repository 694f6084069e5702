"""Which answers to "how far has the group come" judge a commit."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.hosting.placement import partition_for
from kpywire.messages.offset_commit import OffsetCommitRequest
from kpywire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from .committing import commit
from .invariants import GROUPS, Committed, Invariants
from .layout import GROUP_PARTITIONS
from .records import Records

TOPIC_ID = bytes(range(16))
INDEX = partition_for("committer-0", GROUP_PARTITIONS)
NOTHING = NO_EPOCH = -1


class Cluster:
    """Node 1, which is asked, and what others know of the epochs."""

    def __init__(self, led_epoch: int | None, newest_epoch: int) -> None:
        self.replica = SimpleNamespace(leader=None)  # nobody has needed its log yet
        topic = SimpleNamespace(id=TOPIC_ID, replicas={INDEX: self.replica})
        broker = SimpleNamespace(replicas=SimpleNamespace(topics={GROUPS: topic}))
        world: Any = SimpleNamespace()
        machine: Any = SimpleNamespace(host="n1", node=SimpleNamespace(broker=broker))
        listing: Any = SimpleNamespace()
        self.rules = Invariants(world, [machine], listing)
        self.newest = self.rules.committed[GROUPS, TOPIC_ID, INDEX] = Committed()
        self.newest.epoch = newest_epoch
        self.lead(led_epoch)

    def lead(self, epoch: int | None) -> None:
        """Node 1 learns that it leads in an epoch; of None, that it does not."""
        self.replica.is_led_here = epoch is not None
        self.replica.partition = SimpleNamespace(leader_epoch=NO_EPOCH if epoch is None else epoch)

    def takes_over(self) -> None:
        """Another node leads, and node 1 does not know it."""
        self.newest.epoch += 1


class Asking:
    """A client whose commit is acknowledged, and that hears that nothing was committed."""

    def __init__(self, before_it_answers: Callable[[], object]) -> None:
        self.name, self.now_s, self.is_over = "committer", 0.0, False
        self.topics = {"one": SimpleNamespace(id=bytes(16))}
        self.rng = SimpleNamespace(random=lambda: 0.0)
        self._before_it_answers = before_it_answers

    async def coordinator(self, _key: str, _kind: int) -> int:
        return 1

    async def ask(self, _node_id: int, request: Any) -> Any:
        if isinstance(request, OffsetCommitRequest):
            partition = SimpleNamespace(error_code=0)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])
        self._before_it_answers()
        answered = OffsetFetchResponsePartitions(partition_index=0, committed_offset=NOTHING, metadata="", error_code=0)
        topic = OffsetFetchResponseTopics(name="one", partitions=[answered])
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="committer-0", topics=[topic])])

    async def pause(self, _mean_ms: float) -> None:
        self.is_over = True


def offsets_judged(cluster: Cluster, before_it_answers: Callable[[], object]) -> list[int]:
    """The offsets of the answers that count against the commit."""
    client: Any = Asking(before_it_answers)
    world: Any = SimpleNamespace()
    records = Records(world)
    asyncio.run(commit(client, records, ("one", 0), cluster.rules))
    return [each.position.offset for each in records.committed]


@pytest.mark.parametrize("led_epoch", [1, None])
def test_an_answer_of_the_newest_coordinator_is_judged(led_epoch: int | None) -> None:
    cluster = Cluster(led_epoch, 1)
    assert offsets_judged(cluster, lambda: cluster.lead(1)) == [NOTHING]


def test_a_node_that_was_replaced_before_it_was_asked_may_tell_what_is_old() -> None:
    cluster = Cluster(0, 1)
    assert offsets_judged(cluster, lambda: cluster.lead(None)) == []


def test_a_node_that_begins_to_lead_in_an_old_epoch_before_it_answers_may_tell_what_is_old() -> None:
    cluster = Cluster(None, 1)
    assert offsets_judged(cluster, lambda: cluster.lead(0)) == []


def test_a_node_that_is_replaced_only_after_it_was_asked_knows_what_was_committed_before() -> None:
    cluster = Cluster(1, 1)
    assert offsets_judged(cluster, cluster.takes_over) == [NOTHING]
