"""Brokers whose process has ended, found before their sessions are over.

A missed heartbeat proves little: the broker or the network may be slow. So Kafka waits for the end of the session, and
this controller does too. But if the broker's side has closed its connection, and its listener refuses the next one,
then the kernel of that machine has no process on that port any more. That process acknowledges nothing from now on, and
other replicas may lead at once. A broker that is only cut off or paused refuses nothing, and keeps its session.

This cannot do harm. A broker that is fenced by mistake is unfenced by its next heartbeat. Whether it is fenced early or
late, its appends have no effect once another broker leads in a newer epoch.

Invariant: the address of every incarnation that is reported as gone refused a connection after its last heartbeat.
"""

from collections.abc import Callable
from typing import Protocol

from kpybroker.hosts.network.peer import Connect, Link, NoResponse
from kpybroker.machines.controller.heartbeats import BrokerSession, Heartbeats


class HeartbeatConnection(Protocol):
    """A connection by which a broker sends its heartbeats."""

    on_close: Callable[[], object] | None


MOST_LOOKS = 5
"""The number of attempts: a broker that accepts and closes this often is alive, in whatever state."""


class _Look:
    """One attempt to connect to a broker."""

    __slots__ = ("left", "link", "was_opened")

    def __init__(self, left: int) -> None:
        self.link: Link | None = None
        self.was_opened = False
        self.left = left

    def opened(self) -> None:
        self.was_opened = True


class EndedBrokers:
    """The brokers that have ended, as one active controller finds them."""

    def __init__(
        self,
        connect: Connect,
        address: Callable[[int], tuple[str, int] | None],
        heartbeats: Heartbeats,
        gone: Callable[[BrokerSession], object],
    ) -> None:
        """``address`` returns the address where a broker listens for other nodes. ``gone`` is called with an
        incarnation that has ended."""
        self._connect = connect
        self._heartbeats = heartbeats
        self._address = address
        self._gone = gone
        self._heard: dict[int, HeartbeatConnection] = {}
        self._looks: dict[int, _Look] = {}

    def heard(self, session: BrokerSession, connection: HeartbeatConnection) -> None:
        """A heartbeat came over this connection. When the connection closes, the broker is checked."""
        if self._heard.get(session.broker_id) is connection and self._heartbeats.is_connected(session):
            return
        self._heard[session.broker_id] = connection
        self._heartbeats.connected(session)
        self._stop_looking(session.broker_id)
        connection.on_close = lambda: self._closed(session, connection)

    def look(self, session: BrokerSession) -> None:
        """Connect to a broker to check whether its process is alive."""
        self._look(session, MOST_LOOKS)

    def _look(self, session: BrokerSession, left: int) -> None:
        self._stop_looking(session.broker_id)
        address = self._address(session.broker_id)
        if address is None:
            return
        look = self._looks[session.broker_id] = _Look(left - 1)
        link = self._connect(
            *address, look.opened, lambda _frame: None, lambda reason: self._lost(session, look, reason)
        )
        if self._looks.get(session.broker_id) is look:
            look.link = link

    def close(self) -> None:
        """Stop all checks."""
        for connection in self._heard.values():
            connection.on_close = None
        self._heard.clear()
        for broker_id in list(self._looks):
            self._stop_looking(broker_id)

    def _closed(self, session: BrokerSession, connection: HeartbeatConnection) -> None:
        if self._heard.get(session.broker_id) is connection:
            del self._heard[session.broker_id]
            self._heartbeats.disconnected(session)
            self.look(session)

    def _lost(self, session: BrokerSession, look: _Look, reason: str) -> None:
        if self._looks.get(session.broker_id) is not look:
            return
        del self._looks[session.broker_id]
        if NoResponse(reason).has_no_listener:
            self._gone(session)
        elif look.was_opened and look.left and session.broker_id not in self._heard:
            self._look(session, look.left)  # it was accepted by one who was just ending

    def _stop_looking(self, broker_id: int) -> None:
        look = self._looks.pop(broker_id, None)
        if look is not None and look.link is not None:
            look.link.close()
