"""Kafka's group coordinator and ours with the same topics, requests and times, for consumer groups."""

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from group_world import GroupWorld, Ticket
from kafka_shard import KafkaShard, Outcome, canonical, normal, wrapped

from kpybroker.machines.groups.consumer.regexes import ResolveRegexes
from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash
from kpybroker.machines.groups.events import GroupTimersDue
from kpybroker.machines.journal import Effects
from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kpywire.messages.sync_group import SyncGroupResponse
from kpywire.uuid import from_string, to_string

GROUP = "g"
STEPS_SHOWN = 30
FORGOTTEN_BY_KAFKA = (error_codes.REBALANCE_IN_PROGRESS, error_codes.UNKNOWN_MEMBER_ID)
EPOCH_KEYS = [each.to_bytes(2, "big") for each in (3, 11, 17)]
MADE_ID = re.compile(r"(?<=member )[\w-]{22}(?= )")
CONFIGS = {
    "consumer_max_size": "group.consumer.max.size",
    "consumer_assignment_interval_ms": "group.consumer.assignment.interval.ms",
    "consumer_migration_policy": "group.consumer.migration.policy",
    "share_max_size": "group.share.max.size",
    "share_assignment_interval_ms": "group.share.assignment.interval.ms",
    "share_initialize_retry_interval_ms": "group.share.initialize.retry.interval.ms",
    "streams_max_size": "group.streams.max.size",
    "streams_num_standby_replicas": "group.streams.num.standby.replicas",
    "streams_initial_rebalance_delay_ms": "group.streams.initial.rebalance.delay.ms",
    "streams_assignment_interval_ms": "group.streams.assignment.interval.ms",
}


class IdsOfKafka:
    """Random bits that make the member id that Kafka has just made."""

    def __init__(self) -> None:
        self.next_id = ""

    def getrandbits(self, _: int) -> int:
        if len(self.next_id) == 22:
            return int.from_bytes(from_string(self.next_id), "big")
        return int(self.next_id[-36:].replace("-", ""), 16) if self.next_id else 0


def topic(name: str, topic_id: bytes, partitions: int) -> Topic:
    made = Topic(name, topic_id)
    made.partitions = {index: Partition((0,), (0,), 0) for index in range(partitions)}
    return made


class ConsumerTwins:
    """The same requests, topics and times for both; every answer and every record is compared."""

    def __init__(self, kafka: KafkaShard, **settings: Any) -> None:
        self.kafka = kafka
        without_plugin = {"streams_description_max_bytes": 0}
        self.ours = GroupWorld(initial_rebalance_delay_ms=0, max_size=1_000, **without_plugin, **settings)
        self.ids = IdsOfKafka()
        self.ours.rng = self.ids  # type: ignore[assignment]
        self.ours.restart()
        configs = ";".join(f"{CONFIGS[name]}={value}" for name, value in settings.items())
        self.theirs = Outcome(kafka.ask("reset", 0, 1_000, configs))
        self.tickets: dict[int, tuple[Ticket, int, int]] = {}
        self.requests = 0
        self.states = ""
        """The states of share partitions that Kafka's last answer asks to initialise or delete."""
        self.steps: list[str] = []
        self.then: list[ResolveRegexes] = []
        self.topics: dict[str, Topic] = {}

    def with_ids(self, topics: Iterable[Any]) -> bool:
        """Give topics of a commit their ids, as handlers do for all versions. Return whether all have one."""
        for each in topics:
            known = self.topics.get(each.name)
            if known is not None:
                each.topic_id = known.id
        return all(each.name in self.topics for each in topics)

    def choose(self, candidates: Iterable[str]) -> str:
        """The choice of Kafka: its leader, if it is a choice, or the protocol that its hash table has first."""
        among = list(candidates)
        if self.theirs.leader_id in among:
            return self.theirs.leader_id
        return in_hash_order(among, string_hash)[0]

    def request(
        self,
        key: int,
        version: int,
        message: Any,
        part: Any = None,
        require_stable: bool = False,
        pause_ms: int = 1,
    ) -> Any:
        """One request; ``part`` is what of it concerns the group. Returns our response, if there is one now.

        A millisecond passes before it, so that no two sessions end together: Kafka's timer gives them no order.
        """
        self.advance(self.ours.now_ms + pause_ms)
        self.steps.append(f"{self.ours.now_ms} v{version} {message}")
        self.requests += 1
        ticket = self.requests
        before = set(self.theirs.member_ids)
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask("do", key, version, ticket, encode(message, version).hex()))
        new = set(self.theirs.member_ids) - before
        self.ids.next_id = next((each for each in new if len(each) == 22 or key == api.JOIN_GROUP), "")
        if key == api.JOIN_GROUP and not message.member_id and ticket in self.theirs.answers:
            answer = decode(api.response_class(key), version, self.theirs.answers[ticket])
            self.ids.next_id = answer.member_id or self.ids.next_id
        with _Held(self):
            sent = self.ours.send(part or message, version, require_stable=require_stable)
        self.tickets[ticket] = (sent, key, version)
        self.states = self.theirs.states
        self.compare(known)
        self.run()
        return sent.response if sent.is_answered else None

    def run(self) -> None:
        """Regular expressions are resolved."""
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask("run"))
        events, self.then = self.then, []
        for event in events:
            self.ours.submit(event)
        self.compare(known)

    def advance(self, now_ms: int) -> None:
        if now_ms > self.ours.now_ms + 1:
            self.steps.append(f"advance to {now_ms}")
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask("advance", now_ms))
        self.ours.now_ms = now_ms
        while (deadline_ms := self.ours.coordinator.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self.ours.submit(GroupTimersDue(now_ms))
        self.compare(known)

    def event(self, event: Any, *words: object) -> None:
        """Something that is no request; what is due now comes before it."""
        self.advance(self.ours.now_ms)
        self.steps.append(" ".join(map(str, words)))
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask(*words))
        if event is not None:
            self.ours.submit(event)
        self.ours.finish_sweeps()
        self.compare(known)

    def put_topic(self, name: str, partitions: int, rng: Random) -> None:
        """A topic is created, or gets more partitions."""
        known = self.topics.get(name)
        topic_id = rng.randbytes(16) if known is None else known.id
        while to_string(topic_id).startswith("-"):
            topic_id = rng.randbytes(16)
        self.topics[name] = topic(name, topic_id, partitions)
        self.ours.set_topics(known is None, *self.topics.values())
        self.steps.append(f"topic {name} {partitions}")
        self.theirs = Outcome(self.kafka.ask("topic", name, to_string(topic_id), partitions))

    def drop_topic(self, name: str) -> None:
        dropped = self.topics.pop(name)
        self.ours.set_topics(False, *self.topics.values())
        self.theirs = Outcome(self.kafka.ask("drop", name))
        indexes = range(max(4, len(dropped.partitions)))
        self.event(self.ours.deleted({name: indexes}, [dropped.id]), "topics", name)

    def restart(self) -> None:
        self.steps.append("restart")
        self.tickets.clear()
        self.theirs = Outcome(self.kafka.ask("restart"))
        # Kafka takes all topics for new after a load; ours remembers which change made a topic.
        self.ours.topics.created_version = self.ours.topics.version
        self.ours.restart()
        self.ours.finish_sweeps()

    def compare(self, known: int) -> None:
        ours = {
            number: normal(decode(api.response_class(key), version, wrapped(ticket.response, key, version)))
            for number, (ticket, key, version) in self.tickets.items()
            if ticket.is_answered
        }
        theirs = {
            number: normal(decode(api.response_class(self.tickets[number][1]), self.tickets[number][2], body))
            for number, body in self.theirs.answers.items()
        }
        for number in list(ours):
            del self.tickets[number]
            if number not in theirs:  # a parked request of a member that has sent another one or is gone
                assert ours.pop(number).error_code in FORGOTTEN_BY_KAFKA, self.history()
        for response in (*ours.values(), *theirs.values()):
            if isinstance(response, SyncGroupResponse) and response.assignment:
                version = int.from_bytes(response.assignment[:2], "big")  # the topics in one order
                response.assignment = normal(decode(ConsumerProtocolAssignment, version, response.assignment, 2))
            text = getattr(response, "error_message", None)
            if text and "Static member" in text:
                response.error_message = MADE_ID.sub("ID", text)  # each makes its own for a request without one
        if ours != theirs:
            pairs = zip(repr(ours), repr(theirs), strict=False)
            same = next((number for number, (mine, yours) in enumerate(pairs) if mine != yours), 0)
            begin = max(same - 300, 0)
            text = f"ours:   {repr(ours)[begin : same + 300]}\ntheirs: {repr(theirs)[begin : same + 300]}"
            raise AssertionError(f"{self.history()}\n{text}")
        written = [record.encoded() for record in self.ours.records[known:]]
        mine, yours = canonical(last_epoch_only(written)), canonical(last_epoch_only(self.theirs.records))
        only_mine, only_yours = sorted(set(mine) - set(yours)), sorted(set(yours) - set(mine))
        text = "\n".join(("", "only ours:", *only_mine, "only theirs:", *only_yours))
        assert mine == yours, self.history() + text

    def history(self) -> str:
        return "\n".join(self.steps[-STEPS_SHOWN:])


def last_epoch_only(records: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """The records, of several epochs of the group only the last. Sessions that begin with a load end together, and
    Kafka's timer gives them no order."""
    epochs = [number for number, (key, value) in enumerate(records) if key[:2] in EPOCH_KEYS and value is not None]
    return [record for number, record in enumerate(records) if number not in epochs[:-1]]


class _Held:
    """Holds what follows a decision back until `ConsumerTwins.run`."""

    def __init__(self, twins: ConsumerTwins) -> None:
        self._twins = twins
        self._decide = twins.ours.coordinator.decide

    def __enter__(self) -> None:
        self._twins.ours.coordinator.decide = self._hold  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        del self._twins.ours.coordinator.decide  # type: ignore[method-assign]

    def _hold(self, event: Any, now_ms: int) -> Any:
        effects = self._decide(event, now_ms)
        if effects.then is not None:
            self._twins.then.append(effects.then)
        return Effects(effects.records, effects.producer, effects.replies, effects.sends)
