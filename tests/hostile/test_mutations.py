"""Thousands of damaged requests of every API, at all its versions: refused, or answered, and nothing else.

What fails is made smaller and printed with the seed that made it: ``--hostile-seed`` makes the same requests again.
"""

from collections.abc import Iterator

import pytest
from attacker import Attacker, create_topic
from bystander import Bystander
from catalogue import Specimen, advertised, ordinary
from damage import Damaged, damaged
from under_attack import NODE_ID, UnderAttack
from volley import PARKED_S, Unanswered, Volley
from watched import PATIENCE_S, WatchedBroker

from kpybroker.requests.handlers import served_versions
from kpywire import api

TOPIC = "mutations"
GROWING_TOPIC = "growing"
"""The topic of CreatePartitions, one flipped bit of which means thousands. A share group has a state for each partition
of its topics, so the groups of the other topic would be measured by that bit."""
REQUESTS, FEW_REQUESTS = 2_500, 1_000
"""The requests of each API and round, and those of a round alone."""
MOST_LINES = 100
"""In the log, of thousands of offences."""


@pytest.fixture(scope="module")
def mutated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderAttack]:
    """A broker that damaged names and ids do not fill with topics, and an honest client of it."""
    properties = {"auto.create.topics.enable": "false", "node.id": NODE_ID}
    with WatchedBroker(properties, directory=tmp_path_factory.mktemp("mutations")) as broker:
        with Attacker(broker.port) as client:
            create_topic(client, "bystander")
        bystander = Bystander(broker.port, "bystander", PATIENCE_S)
        yield UnderAttack(broker, bystander)
        bystander.stop()


@pytest.fixture(scope="module")
def specimens(mutated: UnderAttack) -> dict[int, list[Specimen]]:
    """An ordinary request of every API at every version, for a topic that exists."""
    with Attacker(mutated.broker.port) as client:
        topic_id = create_topic(client, TOPIC)
        create_topic(client, GROWING_TOPIC)
    found: dict[int, list[Specimen]] = {}
    for key, version in advertised(mutated.broker.port):
        topic = GROWING_TOPIC if key == api.CREATE_PARTITIONS else TOPIC
        found.setdefault(key, []).append(ordinary(key, version, topic, topic_id))
    return found


class Watch:
    """Looks at the broker now and then while requests are fired at it; names the one that broke it."""

    def __init__(self, broker: WatchedBroker, seed: int) -> None:
        self.broker = broker
        self.seed = seed
        self.log_position = broker.log_position()

    def look(self, sent: list[Damaged]) -> None:
        """Raises AssertionError with the smallest request that is known to do it, if anything went wrong."""
        if self.broker.is_alive and not self._defects():
            return
        defects, ended = self._defects(), not self.broker.is_alive
        if ended:
            pytest.fail(f"seed {self.seed}: the broker ended in one of\n" + "\n".join(map(str, sent[-200:])))
        culprit = self._smallest(next(filter(self._breaks, sent), None))
        pytest.fail(f"seed {self.seed}: {culprit or 'requests that do it together'}\n" + "\n".join(defects[:40]))

    def _smallest(self, culprit: Damaged | None) -> Damaged | None:
        while culprit is not None:
            smaller = next(filter(self._breaks, culprit.smaller()), None)
            if smaller is None:
                break
            culprit = smaller
        return culprit

    def _breaks(self, request: Damaged) -> bool:
        self.log_position = self.broker.log_position()
        try:
            Volley(self.broker.port, lanes=1, pipelined=1).fire(iter([request]))
        except Unanswered:
            return True
        return bool(self._defects()) or not self.broker.is_alive

    def _defects(self) -> list[str]:
        return self.broker.defects_since(self.log_position)


@pytest.mark.parametrize("key", sorted(served_versions()), ids=lambda key: api.API_KEYS[key].name)
def test_damaged_requests_are_answered_or_refused(
    mutated: UnderAttack, specimens: dict[int, list[Specimen]], key: int, rounds: int, seed: int
) -> None:
    broker, count = mutated.broker, REQUESTS * rounds if rounds > 1 else FEW_REQUESTS
    position = broker.log_position()
    watch, volley = Watch(broker, seed), Volley(broker.port)
    with mutated.holds():
        volley.fire(damaged(specimens[key], count, seed), watch.look)
    lines = [line for line in broker.log_since(position) if "closing the connection" in line]
    assert len(lines) <= MOST_LINES, "a line in the log for each of many offences"
    assert volley.sent == count
    assert volley.closed > volley.sent / 10
    assert volley.parked * PARKED_S < count, "too many of them waited"
