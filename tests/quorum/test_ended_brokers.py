"""A broker that is gone is distinguished from one that is slow, paused or cut off."""

from collections.abc import Callable

from kpybroker.hosts.network.outgoing import NoListener
from kpybroker.hosts.quorum.ended_brokers import MOST_LOOKS, EndedBrokers
from kpybroker.machines.controller.heartbeats import BrokerSession, Heartbeats

BROKER = BrokerSession(2, 7)


class PlayedConnection:
    on_close: Callable[[], object] | None = None

    def end(self) -> None:
        if self.on_close is not None:
            self.on_close()


class PlayedLink:
    def __init__(self, opened: Callable[[], object], lost: Callable[[str], object]) -> None:
        self.opened, self.lost = opened, lost
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        raise AssertionError(f"nothing is said, and not {frame!r}")

    def close(self) -> None:
        self.is_closed = True


class Watched:
    """A broker at port 9092, and what is found out about it."""

    def __init__(self) -> None:
        self.links: list[PlayedLink] = []
        self.gone: list[BrokerSession] = []
        self.refuses_at_once = False
        self.heartbeats = Heartbeats(9_000)
        self.ended = EndedBrokers(self._connect, {2: ("there", 9092)}.get, self.heartbeats, self.gone.append)
        self.connection = PlayedConnection()
        self.ended.heard(BROKER, self.connection)

    def _connect(
        self, _host: str, _port: int, opened: Callable[[], object], _taken: object, lost: Callable[[str], object]
    ) -> PlayedLink:
        link = PlayedLink(opened, lost)
        self.links.append(link)
        if self.refuses_at_once:
            lost(NoListener("refused"))
        return link


def test_a_broker_whose_connection_closes_and_whose_port_is_closed_is_gone() -> None:
    watched = Watched()
    watched.connection.end()
    watched.links[0].lost(NoListener("refused"))
    assert watched.gone == [BROKER]


def test_a_port_that_is_found_closed_at_once_counts_as_well() -> None:
    watched = Watched()
    watched.refuses_at_once = True
    watched.connection.end()
    assert watched.gone == [BROKER]


def test_a_broker_that_cannot_be_reached_is_not_gone() -> None:
    watched = Watched()
    watched.connection.end()
    watched.links[0].lost("no route to host")
    assert (len(watched.links), watched.gone) == (1, [])


def test_a_broker_that_only_lost_its_connection_is_not_gone() -> None:
    watched = Watched()
    watched.connection.end()
    watched.ended.heard(BROKER, PlayedConnection())
    assert watched.links[0].is_closed
    watched.links[0].lost(NoListener("too late"))
    assert watched.gone == []


def test_a_broker_that_accepted_while_ending_is_probed_again() -> None:
    watched = Watched()
    watched.connection.end()
    watched.links[0].opened()
    watched.links[0].lost("reset")
    watched.links[1].lost(NoListener("refused"))
    assert watched.gone == [BROKER]


def test_a_broker_counts_as_connected_until_its_connection_closes() -> None:
    watched = Watched()
    assert watched.heartbeats.is_connected(BROKER)
    assert not watched.heartbeats.is_connected(BrokerSession(2, 8))
    watched.connection.end()
    assert not watched.heartbeats.is_connected(BROKER)


def test_a_broker_that_registers_again_over_its_connection_is_known_by_its_new_epoch() -> None:
    watched = Watched()
    again = BrokerSession(2, 9)
    watched.ended.heard(again, watched.connection)
    watched.connection.end()
    watched.links[0].lost(NoListener("refused"))
    assert watched.gone == [again]


def test_an_earlier_connection_says_nothing_of_a_broker_that_has_another() -> None:
    watched = Watched()
    watched.ended.heard(BROKER, PlayedConnection())
    watched.connection.end()
    assert watched.links == []


def test_a_broker_without_a_known_address_is_not_probed() -> None:
    watched = Watched()
    watched.ended.look(BrokerSession(3, 1))
    assert (watched.links, watched.gone) == ([], [])


def test_a_former_controller_probes_no_brokers() -> None:
    watched = Watched()
    watched.connection.end()
    watched.ended.close()
    watched.links[0].lost(NoListener("refused"))
    assert (watched.links[0].is_closed, watched.gone) == (True, [])


def test_a_broker_that_accepts_and_closes_connections_counts_as_running() -> None:
    watched = Watched()
    watched.connection.end()
    for link in watched.links:  # which grows
        link.opened()
        link.lost("reset")
    assert (len(watched.links), watched.gone) == (MOST_LOOKS, [])
