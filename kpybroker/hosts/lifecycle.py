"""How a broker comes into the cluster and leaves it (Kafka's BrokerLifecycleManager, KIP-631).

It registers with the active controller, then sends a heartbeat every ``broker.heartbeat.interval.ms``. It starts fenced
and is unfenced once it has caught up with the metadata; a clean stop asks the controller to move its leaderships away
and waits for permission, but not for ever. A broker that is unregistered while it runs registers again. A broker that
is not registered within ``initial.broker.registration.timeout.ms`` of its start gives up. So does a broker that cannot
report a failed log directory to any controller within ``log.dir.failure.timeout.ms``: it would still count as the
leader of the partitions there.
"""

import logging
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.broker_registration import BrokerRegistrationRequest

if TYPE_CHECKING:
    from kpybroker.machines.reporting_heartbeat import SilentBroker

log = logging.getLogger("kpybroker.lifecycle")

RETRY_MS = 100
REFUSALS = frozenset(
    {
        error_codes.INCONSISTENT_CLUSTER_ID,
        error_codes.BROKER_ID_NOT_REGISTERED,
        error_codes.UNSUPPORTED_VERSION,
        error_codes.INVALID_REGISTRATION,
    }
)
"""Errors that another attempt with the same request cannot change. A duplicate registration ends with the other's
session."""


class BrokerState(IntEnum):
    """Kafka's broker states, with its numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class SendToController(Protocol):
    """The way to the controller."""

    def __call__(self, request: Any, reply: Callable[[Any], object]) -> None: ...


class ReportedDirectories(Protocol):
    """The state of the log directories in heartbeats, by their ids."""

    def offline_ids(self) -> list[bytes]:
        """The directories that failed."""

    def cordoned_ids(self) -> list[bytes]:
        """The directories that take no new logs."""

    def is_any_online(self) -> bool:
        """Whether a directory has not failed."""


class Times(NamedTuple):
    """The times of a registration."""

    heartbeat_interval_ms: int
    registration_timeout_ms: float
    """The time within which a controller must register the broker."""
    directory_failure_timeout_ms: float


class Lifecycle:
    """One broker's registration. ``metadata_offset`` is how far this broker has applied the metadata log."""

    def __init__(  # noqa: PLR0913
        self,
        scheduler: Scheduler,
        send: SendToController,
        registration: BrokerRegistrationRequest,
        metadata_offset: Callable[[], int],
        directories: ReportedDirectories,
        refused: Callable[[str], None],
        times: Times,
        *,
        knows_cordons: Callable[[], bool] = lambda: True,
    ) -> None:
        """``knows_cordons``: whether controllers of this ``metadata.version`` know of directories that take no new
        logs. Heartbeats to those of Kafka 3.9 must not name them."""
        self.scheduler = scheduler
        self.send = send
        self.registration = registration
        self.metadata_offset = metadata_offset
        self.directories = directories
        self.refused = refused
        self.times = times
        self._knows_cordons = knows_cordons
        self.state = BrokerState.STARTING
        self.broker_epoch = -1
        self._unfenced: list[Callable[[], None]] = []
        self._may_stop: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._patience: Timer | None = None
        self._last_refusal = error_codes.NONE
        self._reported_offline: frozenset[bytes] = frozenset()
        """The failed directories that a controller has acknowledged."""
        self._telling: Timer | None = None
        self._silent_peers: Callable[[], list[SilentBroker]] | None = None

    def epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""
        return self.broker_epoch

    def report_silent(self, silent_peers: Callable[[], "list[SilentBroker]"]) -> None:
        """Report the brokers that do not answer this one with each heartbeat from now on."""
        self._silent_peers = silent_peers

    def limit(self) -> None:
        """Begin the time within which a controller must register this broker, or ``refused`` is called."""
        self._patience = self.scheduler.call_later(self.times.registration_timeout_ms, self._lost_patience)

    def _lost_patience(self) -> None:
        if self.state == BrokerState.STARTING:
            timeout_ms = self.times.registration_timeout_ms
            answered = "" if self._last_refusal == error_codes.NONE else f": {error_codes.message(self._last_refusal)}"
            self.refused(f"no controller has registered this broker within {timeout_ms / 1000:g} s{answered}")

    def start(self, unfenced: Callable[[], None]) -> None:
        """Register; ``unfenced`` is called once when clients may be served."""
        self._unfenced.append(unfenced)
        self.send(self.registration, self._registered)

    def register_again(self) -> None:
        """Register again: this broker's registration in the metadata is gone, or lacks fields that the metadata could
        not hold before."""
        if self.state in (BrokerState.RECOVERY, BrokerState.RUNNING):
            self.registration.previous_broker_epoch = self.broker_epoch
            self.send(self.registration, self._registered)

    def report(self) -> None:
        """Send the next heartbeat at once, because there is something new to report."""
        self._limit_telling()
        if self.state == BrokerState.RUNNING:
            self._beat()

    def _limit_telling(self) -> None:
        """Limit the time until a controller knows all failed directories."""
        is_reported = self._reported_offline.issuperset(self.directories.offline_ids())
        if self._telling is None and not is_reported:
            self._telling = self.scheduler.call_later(self.times.directory_failure_timeout_ms, self._could_not_tell)
        elif self._telling is not None and is_reported:
            self._telling.cancel()
            self._telling = None

    def _could_not_tell(self) -> None:
        self._telling = None
        within = f"within {self.times.directory_failure_timeout_ms / 1000:g} s"
        self.refused(f"no controller learned {within} that a log directory failed")

    def stop(self, may_stop: Callable[[], None]) -> None:
        """Ask for a controlled shutdown; ``may_stop`` is called when the controller permits it. A broker that never
        registered, or that has no log directory left, does not ask: Kafka halts then, too."""
        self._may_stop = may_stop
        if self.broker_epoch < 0 or not self.directories.is_any_online():
            self._let_go()
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._beat()

    def _registered(self, response: Any) -> None:
        code = response.error_code
        before, self._last_refusal = self._last_refusal, code
        if code == error_codes.NONE:
            self.broker_epoch = response.broker_epoch
            if self.state == BrokerState.STARTING:
                self.state = BrokerState.RECOVERY
            self._beat()
        elif code in REFUSALS:
            self.refused(f"the controller refuses to register this broker: {error_codes.message(code)}")
        else:
            if code != before:
                log.info(
                    "The registration of this broker is sent again, since the last one was answered with %s",
                    error_codes.name(code),
                )
            self._timer = self.scheduler.call_later(RETRY_MS, self.send, self.registration, self._registered)

    def _beat(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state == BrokerState.SHUTTING_DOWN:
            return
        offline = self.directories.offline_ids()
        facts = {
            "broker_id": self.registration.broker_id,
            "broker_epoch": self.broker_epoch,
            "current_metadata_offset": self.metadata_offset(),
            "want_fence": False,
            "want_shut_down": self._may_stop is not None,
            "offline_log_dirs": offline,
            "cordoned_log_dirs": self.directories.cordoned_ids() if self._knows_cordons() else None,
        }
        self.send(self._heartbeat(facts), partial(self._heard, offline))

    def _heartbeat(self, facts: dict[str, Any]) -> Any:
        """The heartbeat with these facts, and with the brokers that do not answer this one."""
        silent = [] if self._silent_peers is None else self._silent_peers()
        if not silent:
            return BrokerHeartbeatRequest(**facts)
        from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest  # not of a plain start

        return ReportingHeartbeatRequest(**facts, silent_brokers=silent)

    def _heard(self, reported_offline: list[bytes], response: Any) -> None:
        if self.state == BrokerState.SHUTTING_DOWN:
            return
        if response.error_code == error_codes.NONE:
            self._reported_offline |= set(reported_offline)
            self._limit_telling()
        wait_ms: float = self.times.heartbeat_interval_ms
        before, self._last_refusal = self._last_refusal, response.error_code
        if response.error_code != error_codes.NONE:
            if response.error_code != before:
                log.warning(
                    "The controller answers the heartbeats of this broker with %s",
                    error_codes.name(response.error_code),
                )
            wait_ms = RETRY_MS
        elif self._may_stop is not None:
            wait_ms = RETRY_MS
            if response.should_shut_down:
                self._let_go()
                return
        elif response.is_fenced:
            # Caught up soon: until then ask often, or a start would take a whole interval.
            wait_ms = 1 if response.is_caught_up else RETRY_MS / 10
        elif self.state == BrokerState.RECOVERY:
            self.state = BrokerState.RUNNING
            # In Kafka's words: scripts wait for them.
            log.info("The broker has been unfenced. Transitioning from RECOVERY to RUNNING.")
            unfenced, self._unfenced = self._unfenced, []
            for callback in unfenced:
                callback()
        self._timer = self.scheduler.call_later(wait_ms, self._beat)

    def _let_go(self) -> None:
        self.close()
        if self._may_stop is not None:
            self._may_stop()

    def close(self) -> None:
        """Send no more heartbeats."""
        self.state = BrokerState.SHUTTING_DOWN
        for timer in (self._timer, self._patience, self._telling):
            if timer is not None:
                timer.cancel()
        self._timer = self._patience = self._telling = None
