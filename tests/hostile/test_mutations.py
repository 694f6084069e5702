"""Requests of every API at every version, cut off, bent, and told to lie: refused, or answered, and nothing else."""

from random import Random

import pytest
from attacker import Attacker, create_topic
from catalogue import Specimen, advertised, arbitrary, flipped, lying, ordinary
from watched import WatchedBroker

from kpywire import api

TOPIC = "mutations"
PARKED_S = 1.0
"""A damaged Fetch may ask to wait for days: nobody waits longer for its answer."""
MAY_WAIT = (api.FETCH,)


Specimens = list[Specimen]


@pytest.fixture(scope="module")
def specimens(broker: WatchedBroker) -> Specimens:
    """An ordinary request of every API at every version, for a topic that exists."""
    with Attacker(broker.port) as client:
        topic_id = create_topic(client, TOPIC)
    return [ordinary(key, version, TOPIC, topic_id) for key, version in advertised(broker.port)]


class Volley:
    """Sends request after request, on a new connection whenever the broker has closed the last one."""

    def __init__(self, target: WatchedBroker) -> None:
        self.target = target
        self.log_position = target.log_position()
        self.sent = self.closed = 0
        self._client: Attacker | None = None

    def send(self, key: int, payload: bytes) -> None:
        client = self._client or Attacker(self.target.port)
        self._client = client
        self.sent += 1
        try:
            client.send_frame(payload)
            served = client.drain(PARKED_S if key in MAY_WAIT else None)
        except TimeoutError:
            assert key in MAY_WAIT, f"neither an answer nor the end of the connection: {payload.hex()}"
            client.vanish()
            self._client = None
            return
        except ConnectionError:
            served = False
        if not served:
            self.closed += 1
            client.sock.close()
            self._client = None

    def end(self) -> None:
        if self._client is not None:
            self._client.sock.close()
        lines = [line for line in self.target.log_since(self.log_position) if "closing the connection" in line]
        assert len(lines) <= self.closed, "more than one line in the log for an offence"


def test_a_request_cut_off_at_any_byte_is_refused(target: WatchedBroker, specimens: Specimens) -> None:
    volley = Volley(target)
    for specimen in specimens:
        for length in range(len(specimen.payload)):
            volley.send(specimen.key, specimen.payload[:length])
    volley.end()
    assert volley.closed > volley.sent / 2


def test_a_request_with_bits_turned_over_is_answered_or_refused(
    target: WatchedBroker, specimens: Specimens, rounds: int
) -> None:
    rng = Random(20_261_120)
    volley = Volley(target)
    for number in range(20 * rounds):
        for specimen in specimens:
            volley.send(specimen.key, flipped(specimen.payload, rng, 1 + number % 4))
    volley.end()


def test_a_request_whose_lengths_lie_is_answered_or_refused(
    target: WatchedBroker, specimens: Specimens, rounds: int
) -> None:
    rng = Random(111_108)
    volley = Volley(target)
    for _ in range(20 * rounds):
        for specimen in specimens:
            volley.send(specimen.key, lying(specimen.payload, rng))
    volley.end()


def test_a_request_with_absurd_values_is_answered_or_refused(
    target: WatchedBroker, specimens: Specimens, rounds: int
) -> None:
    rng = Random(83_525)
    volley = Volley(target)
    for number in range(10 * rounds):
        for specimen in specimens:
            payload = arbitrary(specimen.key, specimen.version, rng).payload
            volley.send(specimen.key, flipped(payload, rng, 1) if number % 3 == 2 else payload)
    volley.end()
