"""Connections by which a controller asks silent brokers for a sign of life.

ApiVersions is sent over a plain connection to the listener for other brokers. Any bytes are an answer, and so is the
end of the connection once it was open: a listener with TLS ends it, since it understands nothing. A process that is
paused does neither, and one that is cut off cannot even be connected to.
"""

from collections.abc import Callable, Collection

from kpybroker import __version__
from kpybroker.hosts.network.peer import SOFTWARE_NAME, Connect, Link, NoResponse
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpywire import api, codec
from kpywire.header import encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest

VERSION = 3


class _Probe:
    """One connection."""

    __slots__ = ("link", "was_opened")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.was_opened = False


class LifeProbes:
    """The probes of one active controller, at most one of each broker."""

    def __init__(
        self,
        connect: Connect,
        address: Callable[[int], tuple[str, int] | None],
        answered: Callable[[BrokerSession], object],
        gone: Callable[[BrokerSession], object],
    ) -> None:
        """``answered`` is called with a broker that answered, ``gone`` with one whose port is closed."""
        self._connect = connect
        self._address = address
        self._answered = answered
        self._gone = gone
        self._probes: dict[BrokerSession, _Probe] = {}

    def keep(self, sessions: Collection[BrokerSession]) -> None:
        """Have a probe of each of these brokers, and of no other."""
        for session in self._probes.keys() - set(sessions):
            self._end(session)
        for session in sessions:
            if session not in self._probes:
                self._begin(session)

    def report_to(self, answered: Callable[[BrokerSession], object], gone: Callable[[BrokerSession], object]) -> None:
        """Call these from now on."""
        self._answered, self._gone = answered, gone

    def _begin(self, session: BrokerSession) -> None:
        address = self._address(session.broker_id)
        if address is None:
            return
        probe = self._probes[session] = _Probe()

        def opened() -> None:
            probe.was_opened = True
            if probe.link is not None:
                probe.link.send(_question())

        def taken(_frame: object) -> None:
            if self._probes.get(session) is probe:
                self._end(session)
                self._answered(session)

        def lost(reason: str) -> None:
            if self._probes.get(session) is not probe:
                return
            if NoResponse(reason).has_no_listener:
                self._end(session)
                self._gone(session)
            elif probe.was_opened:
                self._end(session)
                self._answered(session)

        link = self._connect(*address, opened, taken, lost)
        probe.link = link
        if self._probes.get(session) is not probe:
            link.close()
        elif probe.was_opened:
            link.send(_question())

    def _end(self, session: BrokerSession) -> None:
        probe = self._probes.pop(session)
        if probe.link is not None:
            probe.link.close()

    def close(self) -> None:
        """End all probes."""
        self.keep(())


def _question() -> bytes:
    hello = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    header = encode_request_header(api.API_VERSIONS, VERSION, 0, "controller-probe")
    return header + codec.encode(hello, VERSION)
