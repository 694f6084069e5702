"""Keeps the in-sync sets of the partitions that this node leads up to date, by asking the controller (Kafka's
``AlterPartitionManager``, KIP-497).

Twice in ``replica.lag.time.max.ms`` it looks for followers that have not been caught up for that long. A follower that
has caught up is proposed at its fetch. Changes that come together go into one request, and one request is under way at
a time. Not here: the decision which replicas are in sync (`kpybroker.machines.partition.in_sync` and the controller).

Invariant: every change that was proposed is answered, or its leader's term is over, or the metadata contain the valid
set.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import IsrChange, Rules
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

log = logging.getLogger("kpybroker.replication")

RETRY_MS = 50
"""The delay after a request that failed, as in Kafka."""
REPLICAS_PER_STEP = 50

Place = tuple[bytes, int]
"""(topic id, partition index)."""


class HeldReplicas(Protocol):
    """The replicas of this node."""

    rules: Rules

    def __iter__(self) -> Iterator[Replica]: ...

    def directory_failed(self, failure: DiskFailure) -> None: ...


class _Proposal(NamedTuple):
    replica: Replica
    leader: PartitionLeader
    change: IsrChange

    @property
    def is_wanted(self) -> bool:
        """Whether its leader still waits for it."""
        return self.leader.in_sync.pending is self.change and self.replica.leader is self.leader


class InSyncKeeper:
    """The proposals of all leaders of a node. ``shrinks`` and ``expands`` were granted, ``failures`` were not."""

    def __init__(
        self,
        scheduler: Scheduler,
        send: Callable[[Any, Callable[[Any], object]], None],
        replicas: HeldReplicas,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        """``send`` asks the active controller."""
        self.shrinks = self.expands = self.failures = 0
        self._scheduler = scheduler
        self._send = send
        self._replicas = replicas
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._proposed: dict[Place, _Proposal] = {}
        """The proposals that are not answered yet."""
        self._is_asking = False
        self._is_stopped = False
        self._retry: Timer | None = None
        self._look: Timer | None = None

    def start(self) -> None:
        """Begin to look for followers that fell behind."""
        self._look_later()

    def stop(self) -> None:
        """Stop proposing."""
        self._is_stopped = True
        for timer in (self._look, self._retry):
            if timer is not None:
                timer.cancel()

    # What is proposed

    def propose(self, replica: Replica, leader: PartitionLeader, change: IsrChange) -> None:
        """Propose a change that a leader wants."""
        if change.added is None:
            log.info("%s: brokers %s are behind, proposing the in-sync set %s", replica, change.removed, change.isr)
        else:
            log.info("%s: broker %d has caught up, proposing the in-sync set %s", replica, change.added, change.isr)
        self._proposed[replica.topic.id, replica.index] = _Proposal(replica, leader, change)
        if not self._is_asking and self._retry is None:
            # Others may come in this turn of the loop.
            self._retry = self._scheduler.call_later(0, self._ask)

    def brokers_changed(self) -> None:
        """Recount after brokers came, left or were fenced: one that may not join no longer bounds the high
        watermark."""
        now_ms = self._scheduler.monotonic_ms()
        for replica in self._replicas:
            leader = replica.leader
            if leader is None or not leader.in_sync.followers:
                continue
            if leader.recount(now_ms):
                replica.changed()
            elif replica.commit_waits:
                replica.check_waits()

    def _look_later(self) -> None:
        self._look = self._scheduler.call_later(self._replicas.rules.lag_max_ms / 2, self._look_now)

    def _look_now(self) -> None:
        self._look_later()
        self._scheduler.in_pieces(self._look_in_pieces())

    def _look_in_pieces(self) -> Iterator[None]:
        for number, replica in enumerate(list(self._replicas)):
            if number % REPLICAS_PER_STEP == REPLICAS_PER_STEP - 1 or replica.leader is None:
                yield  # its log may have to be opened
            if self._is_stopped:
                return
            if len(replica.partition.replicas) > 1 and replica.is_led_here:
                self._look_at(replica)

    def _look_at(self, replica: Replica) -> None:
        try:
            leader = replica.led()
            now_ms = self._scheduler.monotonic_ms()
            change = leader.shrink_in_sync(now_ms)
            moved = leader.recount(now_ms)
        except KafkaError as error:
            log.debug("%s is not led: %s", replica, error)
            return
        except DiskFailure as failure:
            self._replicas.directory_failed(failure)
            return
        except Exception:
            log.exception("The in-sync set of %s could not be checked because of a defect", replica)  # the others are
            return
        if moved:
            replica.changed()
        if change is not None:
            self.propose(replica, leader, change)

    # Asking

    def _ask(self) -> None:
        self._retry = None
        for place in [place for place, proposal in self._proposed.items() if not proposal.is_wanted]:
            del self._proposed[place]
        if self._is_stopped or not self._proposed:
            return
        self._is_asking = True
        asked = dict(self._proposed)
        self._send(self._request(asked), lambda response: self._answered(asked, response))

    def _ask_again(self, delay_ms: float) -> None:
        if self._proposed and self._retry is None and not self._is_stopped:
            self._retry = self._scheduler.call_later(delay_ms, self._ask)

    def _request(self, asked: dict[Place, _Proposal]) -> AlterPartitionRequest:
        own_epoch = self._broker_epoch()
        topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
        for (topic_id, index), (_, leader, change) in asked.items():
            members = leader.in_sync.with_epochs(change, own_epoch)
            topics.setdefault(topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in members],
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=own_epoch,
            topics=[
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    # What is answered

    def _answered(self, asked: dict[Place, _Proposal], response: AlterPartitionResponse) -> None:
        """Handle the response. Changes that the controller did not answer are proposed again."""
        self._is_asking = False
        if self._is_stopped:
            return
        if response.error_code != error_codes.NONE:
            log.info(
                "In-sync sets are proposed to the controller again, since it answered %s",
                error_codes.name(response.error_code),
            )
            self._ask_again(RETRY_MS)
            return
        must_wait = False
        for topic in response.topics:
            for answer in topic.partitions:
                place = topic.topic_id, answer.partition_index
                proposal = asked.pop(place, None)
                if proposal is None:
                    continue
                if self._settle(proposal, answer):
                    must_wait = True
                elif self._proposed.get(place) is proposal:
                    del self._proposed[place]
        self._ask_again(RETRY_MS if must_wait or asked else 0)

    def _settle(self, proposal: _Proposal, answer: AlterPartitionResponsePartitionData) -> bool:
        """Take over an answer; whether the change has to be proposed again."""
        replica, leader, change = proposal
        if answer.error_code == error_codes.NONE:
            self.shrinks += change.added is None
            self.expands += change.added is not None
        if not proposal.is_wanted:
            return False  # the metadata were here first
        now_ms = self._scheduler.monotonic_ms()
        if answer.error_code != error_codes.NONE:
            self.failures += 1
            again = leader.isr_refused(change, answer.error_code, now_ms)
            log.info(
                "%s: the in-sync set %s was refused with %s", replica, change.isr, error_codes.name(answer.error_code)
            )
            replica.changed()
            return again
        if not leader.isr_granted(change, answer.leader_epoch, answer.partition_epoch, answer.isr, now_ms):
            self.failures += 1
            return False
        log.info("%s: the in-sync set is %s, partition epoch %d", replica, leader.isr, leader.partition_epoch)
        replica.changed()
        return False
