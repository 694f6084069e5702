"""Runs the balancer's process while this node's controller is the active one, and keeps its last standing.

It also runs in the mode ``off`` while moves are noted: then it cancels them, and removes their throttles.
"""

import logging
from collections.abc import Callable
from typing import Final

from kpybroker.client.balancer import GOALS, MODE_KEY, BalancerSettings
from kpybroker.client.security import NO_SECURITY, PLAINTEXT, ClientSecurity, PasswordLogin
from kpybroker.config import between_nodes
from kpybroker.config.between_nodes import Credentials
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import (
    BALANCER_DISK_LIMIT,
    BALANCER_IDLE_DISK,
    BALANCER_INTERVAL_MS,
    BALANCER_MOST_RATE,
    BALANCER_TOLERANCE,
)
from kpybroker.config.synonyms import CERTIFICATES_OF_LISTENER
from kpybroker.hosts.balancer.task import BalancerFailed, BalancerTask
from kpybroker.machines.balance.goals import BalanceGoals
from kpybroker.machines.balance.standing import BalancerStanding
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.runtime.io.scheduler import Scheduler
from kpybroker.runtime.io.worker import Worker, WorkerDied

log = logging.getLogger("kpybroker.balancer")

MODULE: Final = "kpybroker.hosts.balancer.process"
MOST_SERVERS: Final = 20
TLS_CONFIGS: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    *sorted(CERTIFICATES_OF_LISTENER),
)
"""The configs of a listener that a client of it has, too."""
AFTER_A_FAILURE_MS: Final = 30_000


class Balancing:
    """The balancer of this node, which runs or does not."""

    def __init__(self, scheduler: Scheduler, image: Callable[[], MetadataImage]) -> None:
        self.standing = BalancerStanding()
        self._scheduler = scheduler
        self._image = image
        self._worker: Worker | None = None
        self._settings: BalancerSettings | None = None
        self._not_before_ms = 0.0

    def turn(self, config: BrokerConfig, *, is_wanted: bool) -> None:
        """Begin or end, as it is wanted now, and begin again with other settings."""
        settings = settings_of(config)
        if self._worker is not None and not (is_wanted and settings == self._settings):
            self.stop()
        if not is_wanted:
            self.standing = BalancerStanding(settings.mode)
        elif self._worker is None and self._scheduler.monotonic_ms() >= self._not_before_ms:
            self._begin(config, settings)

    def stop(self) -> None:
        """End the process. What it has begun is ended by the next one."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _begin(self, config: BrokerConfig, settings: BalancerSettings) -> None:
        servers = servers_of(self._image(), config.inter_broker_listener_name)
        if not servers:
            self.standing = BalancerStanding(settings.mode, "It waits: no broker is alive.")
            return
        try:
            task = BalancerTask(servers, settings, security_of(config))
        except ConfigError as error:
            self._failed(settings, error.message)
            return
        self._settings = settings
        self.standing = BalancerStanding(settings.mode, "It begins.")
        worker = self._worker = Worker(self._scheduler, MODULE, lambda answer: isinstance(answer, BalancerFailed))

        def answered(answer: BalancerStanding | BalancerFailed | WorkerDied) -> None:
            if self._worker is not worker:
                return
            if isinstance(answer, BalancerStanding):
                if answer.line != self.standing.line and not answer.left:
                    log.info("The balancer (%s): %s", settings.mode, answer.line)
                self.standing = answer
            else:
                self.stop()
                self._failed(settings, str(answer) if isinstance(answer, WorkerDied) else answer.reason)

        worker.ask(task, answered)

    def _failed(self, settings: BalancerSettings, reason: str) -> None:
        log.warning("The balancer cannot go on: %s", reason)
        self.standing = BalancerStanding(settings.mode, f"It cannot go on: {reason}")
        self._not_before_ms = self._scheduler.monotonic_ms() + AFTER_A_FAILURE_MS


def settings_of(config: BrokerConfig) -> BalancerSettings:
    """The configs of the balancer."""
    goals = BalanceGoals(
        config[BALANCER_TOLERANCE] / 100,
        config[BALANCER_DISK_LIMIT] / 100,
        config[BALANCER_IDLE_DISK] / 100,
        only=GOALS,
    )
    return BalancerSettings(config[MODE_KEY], config[BALANCER_INTERVAL_MS] / 1000, goals, config[BALANCER_MOST_RATE])


def servers_of(image: MetadataImage, listener: str) -> str:
    """The addresses of some brokers that are alive, at the listener between brokers."""
    alive = [each for _, each in sorted(image.brokers.items()) if not each.fenced and listener in each.listeners]
    ends = [each.listeners[listener] for each in alive[:MOST_SERVERS]]
    return ",".join(f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}" for each in ends)


def security_of(config: BrokerConfig) -> ClientSecurity:
    """The protection of connections to brokers, as this node's own. Raises ConfigError where a client has none."""
    dialled = between_nodes.brokers(config)
    if dialled.protocol == PLAINTEXT:
        return NO_SECURITY
    login = None
    if dialled.credentials is not None:
        if not isinstance(dialled.credentials, Credentials):
            raise ConfigError(f"it logs in to brokers by PLAIN or SCRAM, not by {dialled.credentials.mechanism}")
        login = PasswordLogin(*dialled.credentials)
    return ClientSecurity(_tls(config, dialled.listener) if dialled.has_tls else None, login)


def _tls(config: BrokerConfig, listener: str) -> dict[str, str]:
    found = {}
    for name in TLS_CONFIGS:
        value = config.of_listener(listener, name)
        value = getattr(value, "value", value)
        if value is not None:
            found[name] = ",".join(value) if isinstance(value, tuple) else str(value)
    return found
