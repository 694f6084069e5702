"""Both brokers, started alike, and what happens to a seed: played, and where it shows a difference, shrunk."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from differential.author import sequence
from differential.playing import Play, Played, Ports, prepare
from differential.shrinking import shrunk
from differential.steps import Step
from group_requests import coordinator_ready
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.uuid import to_string
from oracle import RECEIVER, SMALL_JVM, ApacheKafka, BrokerProcess
from oracle.broker import SMALL_PROPERTIES
from raw_client import RawClient, connect
from share_requests import SOME_ID, reading_state
from targets import KpyBroker
from waiting import eventually

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
    "num.partitions": "2",
    **RECEIVER,
}
"""Properties of both. On a busy machine no broker may be fenced: its partitions would have other epochs then."""


FIRST_IDS = [f"dif-0-{number}" for number in range(20)]
"""Transactional ids that together meet all partitions of their topic."""


class Pair:
    """``ports`` of the two brokers; counts what was played on them."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.steps = 0
        self.sequences = 0
        self.known: Counter[str] = Counter()
        self.reached: Counter[tuple[int, int, int]] = Counter()
        """(api key, version, error code) that Apache Kafka answered."""
        self._names = int(time.time() * 1000) % 10**7

    def play(self, steps: Sequence[Step]) -> Played:
        """Play a sequence whose names are new to both brokers."""
        self._names += 1
        play = Play(self.ports, f"dif-{self._names}-")
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
    theirs = ApacheKafka(ALIKE, directory=directory / "apache-kafka", jvm=SMALL_JVM, heap="512m")
    with ExitStack() as brokers:
        started: list[BrokerProcess] = [brokers.enter_context(each) for each in (theirs, ours)]
        for broker in started:
            with connect(broker.bootstrap_servers) as raw:
                coordinator_ready(raw)
                eventually(partial(_hands_out_ids, raw), "a producer id")
                eventually(partial(_coordinates_shares, raw), "a coordinator of share partitions")
        ports = Ports(theirs.port, ours.port)
        prepare(ports)
        yield Pair(ports)
