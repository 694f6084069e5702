"""Which answers judge a commit: to "how far has the group come", and to "commit this transaction"."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exactly_once.history import Outcome
from kpybroker.hosts.coordinators.placement import partition_for
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.offset_commit import OffsetCommitRequest
from kpywire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from .client import GROUPS, TRANSACTIONS
from .committing import commit
from .invariants import Committed, Invariants
from .layout import COORDINATOR_PARTITIONS
from .producing import Identity, Producer
from .records import Records

TOPIC_ID = bytes(range(16))
NOTHING = NO_EPOCH = -1


class Cluster:
    """Node 1, which is asked, and what others know of the epochs."""

    def __init__(
        self, led_epoch: int | None, newest_epoch: int, coordinators: str = GROUPS, key: str = "committer-0"
    ) -> None:
        index = partition_for(key, COORDINATOR_PARTITIONS)
        self.replica = SimpleNamespace(leader=None)  # nobody has needed its log yet
        topic = SimpleNamespace(id=TOPIC_ID, replicas={index: self.replica})
        broker = SimpleNamespace(replicas=SimpleNamespace(topics={coordinators: topic}))
        world: Any = SimpleNamespace()
        machine: Any = SimpleNamespace(host="n1", node=SimpleNamespace(broker=broker))
        listing: Any = SimpleNamespace()
        self.rules = Invariants(world, [machine], listing)
        self.newest = self.rules.committed[coordinators, TOPIC_ID, index] = Committed()
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


class Ending:
    """A client whose request to commit a transaction is answered with NONE."""

    def __init__(self, *, adds_partitions: bool) -> None:
        self.adds_partitions = adds_partitions
        self.rng = SimpleNamespace()
        self.world = SimpleNamespace(is_ending=lambda _node: None)

    async def coordinator(self, _key: str, _kind: int) -> int:
        return 1

    async def ask(self, _node_id: int, request: EndTxnRequest) -> Any:
        epoch = request.producer_epoch + (0 if self.adds_partitions else 1)
        return SimpleNamespace(error_code=0, producer_id=request.producer_id, producer_epoch=epoch)


def outcome_of_a_commit(cluster: Cluster, *, adds_partitions: bool) -> Outcome:
    client: Any = Ending(adds_partitions=adds_partitions)
    producer = Producer(client, Records(client.world), {"one": 1}, cluster.rules)
    outcome, identity = asyncio.run(producer._end("tx", Identity(7, 0), True))
    assert identity is not None
    return outcome


@pytest.mark.parametrize("adds_partitions", [True, False])
def test_a_commit_that_the_newest_coordinator_acknowledges_is_one(adds_partitions: bool) -> None:
    cluster = Cluster(1, 1, TRANSACTIONS, "tx")
    assert outcome_of_a_commit(cluster, adds_partitions=adds_partitions) is Outcome.COMMITTED


def test_a_coordinator_that_was_replaced_may_mean_the_transaction_before_of_the_same_epoch() -> None:
    cluster = Cluster(0, 1, TRANSACTIONS, "tx")
    assert outcome_of_a_commit(cluster, adds_partitions=True) is Outcome.UNKNOWN


def test_a_coordinator_that_was_replaced_may_not_acknowledge_a_transaction_with_its_own_epoch() -> None:
    cluster = Cluster(0, 1, TRANSACTIONS, "tx")
    assert outcome_of_a_commit(cluster, adds_partitions=False) is Outcome.COMMITTED
