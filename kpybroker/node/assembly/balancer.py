"""The balancer of a controller's node, which follows the configs and the leadership of the quorum. It is imported when
its mode is first another than ``off``."""

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.balancer.balancing import Balancing
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.machines.balance.standing import BalancerStanding
from kpybroker.runtime.io.scheduler import Scheduler, Timer

LOOK_MS = 1_000
"""The time until a controller that has become active, or is no longer, begins or ends."""


class FollowedBalancer:
    """The balancer. It looks at nothing while it is off."""

    def __init__(self, config: BrokerConfig, scheduler: Scheduler, quorum: QuorumHost) -> None:
        self._config = config
        self._scheduler = scheduler
        self._quorum = quorum
        self._balancing = Balancing(scheduler, lambda: quorum.image)
        self._timer: Timer | None = None
        self._look()

    @property
    def standing(self) -> BalancerStanding | None:
        """The standing; None while another node's controller is active."""
        return self._balancing.standing if self._quorum.is_active else None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Follow another configuration."""
        self._config = config
        self._cancel()
        self._look()

    def close(self) -> None:
        """End it."""
        self._cancel()
        self._balancing.stop()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        is_on = self._config.is_balancing
        self._balancing.turn(self._config, is_wanted=is_on and self._quorum.is_active)
        self._timer = self._scheduler.call_later(LOOK_MS, self._look) if is_on else None
