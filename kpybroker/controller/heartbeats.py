"""When each broker was last heard of and how far it has read the metadata log (Kafka's ``BrokerHeartbeatManager``).

Soft state: it is not in the log, exists on the active controller only, and starts anew with it. Time is any clock
that does not go back.
"""

from collections.abc import Iterable
from typing import NamedTuple

NOT_SHUTTING_DOWN = -1
LONG_AGO_MS = -(2**62)


class Session(NamedTuple):
    """One incarnation of a broker."""

    broker_id: int
    broker_epoch: int


class _BrokerProgress:
    __slots__ = ("controlled_shutdown_offset", "metadata_offset")

    def __init__(self) -> None:
        self.metadata_offset = -1
        self.controlled_shutdown_offset = NOT_SHUTTING_DOWN


class Heartbeats:
    """What brokers said in their heartbeats."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._last_contact_ms: dict[Session, int] = {}
        self._progress: dict[int, _BrokerProgress] = {}
        self._connected: dict[int, Session] = {}

    def connected(self, session: Session) -> None:
        """Its heartbeats come by a connection that is open."""
        self._connected[session.broker_id] = session

    def disconnected(self, session: Session) -> None:
        """That connection was closed."""
        if self._connected.get(session.broker_id) == session:
            del self._connected[session.broker_id]

    def is_connected(self, session: Session) -> bool:
        """Whether this incarnation could be heard at any moment."""
        return self._connected.get(session.broker_id) == session

    def contact(self, session: Session, now_ms: int) -> None:
        """A heartbeat came in, whatever it will be answered."""
        self._last_contact_ms[session] = now_ms

    def has_valid_session(self, session: Session, now_ms: int) -> bool:
        """Whether this incarnation was heard of recently enough."""
        last_contact_ms = self._last_contact_ms.get(session)
        return last_contact_ms is not None and now_ms - last_contact_ms <= self._session_timeout_ms

    def end(self, session: Session) -> None:
        """This incarnation is known to have ended: its session is over, whenever it was last heard of."""
        if session in self._last_contact_ms:
            self._last_contact_ms[session] = LONG_AGO_MS

    def take_expired(self, now_ms: int) -> Session | None:
        """Forget one incarnation whose session is over and return it; None when there is none."""
        for session, last_contact_ms in self._last_contact_ms.items():
            if now_ms - last_contact_ms > self._session_timeout_ms:
                del self._last_contact_ms[session]
                return session
        return None

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int) -> None:
        """Note how far a broker has read; one that is fenced is no longer in a controlled shutdown."""
        progress = self._progress.setdefault(broker_id, _BrokerProgress())
        progress.metadata_offset = metadata_offset
        if fenced:
            progress.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def forget(self, broker_id: int) -> None:
        """A broker registered anew or is gone: what its earlier incarnation said means nothing now."""
        self._progress.pop(broker_id, None)

    def begin_controlled_shutdown(self, broker_id: int, next_offset: int) -> None:
        """The broker may stop once all active brokers have read the records that end before ``next_offset``."""
        progress = self._progress.setdefault(broker_id, _BrokerProgress())
        if progress.controlled_shutdown_offset == NOT_SHUTTING_DOWN:
            progress.controlled_shutdown_offset = next_offset - 1

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether the broker is in a controlled shutdown."""
        progress = self._progress.get(broker_id)
        return progress is not None and progress.controlled_shutdown_offset != NOT_SHUTTING_DOWN

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        """What all active brokers must have read before this one may stop."""
        return self._progress[broker_id].controlled_shutdown_offset

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the slowest of these brokers has read; None when there are none."""
        offsets = [self._progress[broker_id].metadata_offset for broker_id in broker_ids if broker_id in self._progress]
        return min(offsets, default=None)
