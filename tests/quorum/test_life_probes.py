"""A silent broker is asked for a sign of life; anything that a living process does is one, and silence is none."""

from collections.abc import Callable

import pytest

from kpybroker.hosts.network.outgoing import NoListener
from kpybroker.hosts.quorum.life_probes import LifeProbes
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpywire import api
from kpywire.header import decode_request_header

SUSPECT = BrokerSession(2, 7)


class Probed:
    """A broker at port 9092, and what its probes find out."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = 0
        self.answered: list[BrokerSession] = []
        self.gone: list[BrokerSession] = []
        self.opened: Callable[[], object] = lambda: None
        self.taken: Callable[[bytes], object] = lambda _frame: None
        self.lost: Callable[[str], object] = lambda _reason: None
        self.at_once: Callable[[Probed], object] = lambda _self: None
        self.links = 0
        self.probes = LifeProbes(self._connect, {2: ("there", 9092)}.get, self.answered.append, self.gone.append)

    def _connect(
        self,
        _host: str,
        _port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes], object],
        lost: Callable[[str], object],
    ) -> "Probed":
        self.links += 1
        self.opened, self.taken, self.lost = opened, taken, lost
        self.at_once(self)
        return self

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self) -> None:
        self.closed += 1


def test_a_broker_is_asked_once_which_versions_it_serves() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    probed.probes.keep([SUSPECT])
    probed.opened()
    (frame,) = probed.sent
    assert (decode_request_header(memoryview(frame)).api_key, probed.links) == (api.API_VERSIONS, 1)


def test_any_answer_is_a_sign_of_life() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    probed.opened()
    probed.taken(b"anything")
    probed.lost("too late")
    assert (probed.answered, probed.closed) == ([SUSPECT], 1)


def test_a_listener_that_ends_the_connection_is_alive() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    probed.opened()
    probed.lost("the other side closed the connection")
    assert probed.answered == [SUSPECT]


def test_a_broker_that_cannot_be_reached_gives_no_sign_of_life() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    probed.lost("no route to host")
    assert (probed.answered, probed.gone) == ([], [])


@pytest.mark.parametrize("at_once", [False, True])
def test_a_broker_whose_port_is_closed_has_ended(*, at_once: bool) -> None:
    probed = Probed()
    if at_once:
        probed.at_once = lambda its: its.lost(NoListener("refused"))
    probed.probes.keep([SUSPECT])
    probed.lost(NoListener("refused"))
    assert (probed.answered, probed.gone) == ([], [SUSPECT])


def test_a_connection_that_is_open_at_once_is_used() -> None:
    probed = Probed()
    probed.at_once = lambda its: its.opened()
    probed.probes.keep([SUSPECT])
    assert len(probed.sent) == 1


def test_a_probe_ends_when_its_broker_is_no_suspect_any_more() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    probed.probes.close()
    probed.taken(b"too late")
    assert (probed.closed, probed.answered) == (1, [])


def test_a_broker_without_a_known_address_is_not_asked() -> None:
    probed = Probed()
    probed.probes.keep([BrokerSession(3, 1)])
    assert probed.links == 0


def test_probes_that_change_hands_report_to_the_new_owner() -> None:
    probed = Probed()
    probed.probes.keep([SUSPECT])
    heard: list[BrokerSession] = []
    probed.probes.report_to(heard.append, heard.append)
    probed.opened()
    probed.taken(b"")
    assert (heard, probed.answered) == ([SUSPECT], [])
