"""Both brokers, started alike, and what happens to a seed: played, and where it shows a difference, shrunk."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from differential.author import sequence
from differential.playing import Play, Played, Ports, prepare
from differential.shrinking import shrunk
from differential.side import ANSWER_WITHIN_S, PLAINLY, Reach, connect_plainly
from differential.steps import Step
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.uuid import to_string
from oracle import RECEIVER, SMALL_JVM, ApacheKafka, BrokerProcess
from oracle.broker import SMALL_PROPERTIES
from support.admitted import AUTHORITY, admit, allow, connect_secured, is_allowed, is_served, secure
from support.group_requests import coordinator_ready
from support.raw_client import RawClient, connect
from support.share_requests import SOME_ID, reading_state
from support.streams_requests import IN_MEMORY_PLUGIN
from support.targets import KpyBroker
from support.waiting import eventually

ALIKE = {
    **{name: value for name, value in SMALL_PROPERTIES.items() if not name.startswith("broker.")},
    "broker.session.timeout.ms": "60000",
    "group.min.session.timeout.ms": "500",
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "kpybroker.group.share.unsettled.heartbeat.interval.ms": "0",
    "group.streams.max.size": "4",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.topology.description.plugin.class": IN_MEMORY_PLUGIN,
    "num.partitions": "2",
    **RECEIVER,
}
"""Properties of both. On a busy machine no broker may be fenced: its partitions would have other epochs then."""


FIRST_IDS = [f"dif-0-{number}" for number in range(20)]
"""Transactional ids that together meet all partitions of their topic."""


class Pair:
    """``ports`` of the two brokers; counts what was played on them. ``reach``: the ways to them;
    ``before``: what is done before each sequence."""

    def __init__(self, ports: Ports, reach: Reach = PLAINLY, before: Callable[[], object] = lambda: None) -> None:
        self.ports = ports
        self._reach = reach
        self._before = before
        self.steps = 0
        self.sequences = 0
        self.known: Counter[str] = Counter()
        self.reached: Counter[tuple[int, int, int]] = Counter()
        """(api key, version, error code) that Apache Kafka answered."""
        self._names = int(time.time() * 1000) % 10**7

    def play(self, steps: Sequence[Step]) -> Played:
        """Play a sequence whose names are new to both brokers."""
        self._names += 1
        self._before()
        play = Play(self.ports, f"dif-{self._names}-", self._reach)
        played = play.run(steps)
        self.reached.update(play.kafka.reached)
        self.steps += played.steps
        self.sequences += 1
        self.known.update(played.known)
        return played


class Finding(NamedTuple):
    """The shortest sequence found that shows a difference."""

    seed: int
    signature: tuple[Any, ...]
    text: str


def explain(
    pair: Pair, steps: Sequence[Step], played: Played, seed: int = -1, within_s: float = 60.0
) -> Finding | None:
    """Shrink what was found; None if it never shows again, as where two timers race."""
    signature = played.signature(steps)

    def shows(fewer: Sequence[Step]) -> bool:
        again = pair.play(fewer)
        return again.at >= 0 and again.signature(fewer) == signature

    steps = list(steps[: played.steps])
    if not shows(steps) and not shows(steps):
        return None
    short = shrunk(steps, shows, within_s)
    last = pair.play(short)
    if last.at < 0:
        return None
    return Finding(seed, signature, f"seed {seed}, {len(short)} steps:\n{last.report(short)}")


def findings(
    pair: Pair, seeds: Iterable[int], within_s: float, shrink_s: float = 60.0, length: int = 40
) -> Iterator[Finding]:
    """Play seed after seed until the time is over; each kind of difference once."""
    deadline = time.monotonic() + within_s
    seen: set[tuple[Any, ...]] = set()
    for seed in seeds:
        if time.monotonic() > deadline:
            return
        steps = sequence(seed, length)
        played = pair.play(steps)
        if played.at < 0 or played.signature(steps) in seen:
            continue
        seen.add(played.signature(steps))
        found = explain(pair, steps, played, seed, shrink_s)
        if found is not None:
            yield found


def _coordinates_shares(raw: RawClient) -> bool:
    """Its coordinators are made ready by the first question for them, too."""
    key = f"dif-0:{to_string(SOME_ID)}:0"
    (found,) = raw.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6).coordinators
    if found.error_code:
        return False
    (answer,) = raw.call(reading_state(SOME_ID, group_id="dif-0"), 0).results[0].partitions
    return bool(answer.error_code == error_codes.INVALID_REQUEST)


def _hands_out_ids(raw: RawClient) -> bool:
    """Also to transactions, whose coordinators are made ready by the first question for them."""
    raw.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["dif-0"]), 4)
    asked = (InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=1000) for each in (None, *FIRST_IDS))
    return not any(raw.call(each, 4).error_code for each in asked)


@contextmanager
def both(directory: Path, kpybroker: KpyBroker | None = None) -> Iterator[Pair]:
    """Start both brokers with the same properties, ready for sequences."""
    ours = kpybroker or KpyBroker(ALIKE, directory=directory / "kpybroker")
    with _started([_kafka(directory), ours]) as ports:
        yield Pair(ports)


@contextmanager
def both_secured(directory: Path) -> Iterator[Pair]:
    """The same with TLS, logins by SCRAM and an authorizer. Sequences are those of a user whom ACLs allow everything;
    a sequence may delete them, so they are made again before the next."""
    brokers: list[BrokerProcess] = [_kafka(directory), KpyBroker(ALIKE, directory=directory / "kpybroker")]
    secured, authorities = [], {}
    for broker in brokers:
        port = int(secure(broker, broker.directory).servers.rpartition(":")[2])
        secured.append(port)
        authorities[port] = broker.directory / AUTHORITY
    with _started(brokers) as ports, ExitStack() as connections:
        administrators = [connections.enter_context(connect_plainly(port)) for port in ports]
        for administrator in administrators:
            admit(administrator)

        def allowed() -> None:
            for administrator, port in zip(administrators, secured, strict=True):
                if not is_allowed(administrator):
                    allow(administrator)
                    with reach.as_actor(port) as client:
                        eventually(partial(is_served, client), "the ACLs to count")

        reach = Reach(
            lambda port: connect_secured(port, authorities[port], ANSWER_WITHIN_S),
            lambda port: connect_plainly(ports[secured.index(port)]),
        )
        yield Pair(Ports(*secured), reach, before=allowed)


def _kafka(directory: Path) -> ApacheKafka:
    return ApacheKafka(ALIKE, directory=directory / "apache-kafka", jvm=SMALL_JVM, heap="512m")


@contextmanager
def _started(brokers: Sequence[BrokerProcess]) -> Iterator[Ports]:
    """Apache Kafka and kpybroker, started and ready, and their ports of PLAINTEXT."""
    with ExitStack() as running:
        for broker in brokers:
            running.enter_context(broker)
        for broker in brokers:
            with connect(broker.bootstrap_servers) as raw:
                coordinator_ready(raw)
                eventually(partial(_hands_out_ids, raw), "a producer id")
                eventually(partial(_coordinates_shares, raw), "a coordinator of share partitions")
        ports = Ports(*(broker.port for broker in brokers))
        prepare(ports)
        yield ports
