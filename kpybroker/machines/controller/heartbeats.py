"""The time of each broker's last heartbeat and how far it has read the metadata log (Kafka's
``BrokerHeartbeatManager``).

This is soft state: it is not in the log, exists on the active controller only, and begins empty with each controller.
Time may be any clock that does not go back.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

NOT_SHUTTING_DOWN = -1
LONG_AGO_MS = -(2**62)


class BrokerSession(NamedTuple):
    """One incarnation of a broker."""

    broker_id: int
    broker_epoch: int


class SilenceReport(NamedTuple):
    """The report of a broker that another one is silent."""

    since_ms: int
    """The time when the reporter heard of it last."""
    is_unanswered: bool
    """The reporter follows it, and gets no answers to its fetches."""


class _BrokerProgress:
    __slots__ = ("controlled_shutdown_offset", "metadata_offset")

    def __init__(self) -> None:
        self.metadata_offset = -1
        self.controlled_shutdown_offset = NOT_SHUTTING_DOWN


class Heartbeats:
    """The contents of the brokers' heartbeats."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._last_contact_ms: dict[BrokerSession, int] = {}
        self._progress: dict[int, _BrokerProgress] = {}
        self._connected: dict[int, BrokerSession] = {}
        self.silent: dict[int, Mapping[int, SilenceReport]] = {}
        """The brokers that each one reports as silent, by the reporter."""

    def connected(self, session: BrokerSession) -> None:
        """Note that its heartbeats come over a connection that is open."""
        self._connected[session.broker_id] = session

    def disconnected(self, session: BrokerSession) -> None:
        """Note that this connection was closed."""
        if self._connected.get(session.broker_id) == session:
            del self._connected[session.broker_id]

    def is_connected(self, session: BrokerSession) -> bool:
        """Whether this incarnation has an open connection, so that a heartbeat could come at any moment."""
        return self._connected.get(session.broker_id) == session

    def contact(self, session: BrokerSession, now_ms: int) -> None:
        """Note that a heartbeat came in, whatever the reply to it will be."""
        self._last_contact_ms[session] = now_ms

    def last_contact_ms(self, session: BrokerSession) -> int | None:
        """The time of the last heartbeat of this incarnation; None without one."""
        return self._last_contact_ms.get(session)

    def note_silent(self, reporter: int, silent: Mapping[int, SilenceReport]) -> None:
        """Note the brokers that another one reports as silent: they replace those that it reported before."""
        if silent:
            self.silent[reporter] = silent
        else:
            self.silent.pop(reporter, None)

    def has_valid_session(self, session: BrokerSession, now_ms: int) -> bool:
        """Whether the last heartbeat of this incarnation is recent enough."""
        last_contact_ms = self._last_contact_ms.get(session)
        return last_contact_ms is not None and now_ms - last_contact_ms <= self._session_timeout_ms

    def end(self, session: BrokerSession) -> None:
        """Note that this incarnation is known to have ended: its session is over, whenever its last heartbeat came."""
        if session in self._last_contact_ms:
            self._last_contact_ms[session] = LONG_AGO_MS

    def stood_still(self, duration_ms: int) -> None:
        """Note that no heartbeat was read for this long, because this node stood still: sessions last longer by it."""
        for session, last_contact_ms in self._last_contact_ms.items():
            if last_contact_ms != LONG_AGO_MS:
                self._last_contact_ms[session] = last_contact_ms + duration_ms

    def expired(self, now_ms: int) -> BrokerSession | None:
        """One incarnation whose session is over; None when there is none."""
        for session, last_contact_ms in self._last_contact_ms.items():
            if now_ms - last_contact_ms > self._session_timeout_ms:
                return session
        return None

    def forget_session(self, session: BrokerSession) -> None:
        """Forget an incarnation whose session is over."""
        self._last_contact_ms.pop(session, None)

    def touch(self, broker_id: int, metadata_offset: int, *, fenced: bool) -> None:
        """Note how far a broker has read. A fenced broker is no longer in a controlled shutdown."""
        progress = self._progress.setdefault(broker_id, _BrokerProgress())
        progress.metadata_offset = metadata_offset
        if fenced:
            progress.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def forget(self, broker_id: int) -> None:
        """Forget a broker that registered again or was unregistered: the heartbeats of its earlier incarnation no
        longer count."""
        self._progress.pop(broker_id, None)
        self.silent.pop(broker_id, None)

    def begin_controlled_shutdown(self, broker_id: int, next_offset: int) -> None:
        """Begin a controlled shutdown. The broker may stop once all active brokers have read the records that end
        before ``next_offset``."""
        progress = self._progress.setdefault(broker_id, _BrokerProgress())
        if progress.controlled_shutdown_offset == NOT_SHUTTING_DOWN:
            progress.controlled_shutdown_offset = next_offset - 1

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether the broker is in a controlled shutdown."""
        progress = self._progress.get(broker_id)
        return progress is not None and progress.controlled_shutdown_offset != NOT_SHUTTING_DOWN

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        """The offset that all active brokers must have read before this one may stop."""
        return self._progress[broker_id].controlled_shutdown_offset

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the slowest of these brokers has read; None if there are none."""
        offsets = [self._progress[broker_id].metadata_offset for broker_id in broker_ids if broker_id in self._progress]
        return min(offsets, default=None)
