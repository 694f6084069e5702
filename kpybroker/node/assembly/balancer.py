"""The balancer of a controller's node. Nothing of it is imported while its mode is ``off``."""

from typing import TYPE_CHECKING, Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import BALANCER_MODE, BALANCER_MOVES
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.runtime.io.scheduler import Scheduler, Timer

if TYPE_CHECKING:
    from kpybroker.hosts.balancer.balancing import Balancing
    from kpybroker.machines.balance.standing import BalancerStanding

LOOK_MS: Final = 1_000
"""The time until a controller that has become active, or is no longer, begins or ends."""


class FollowedBalancer:
    """The balancer, which follows the configs and the leadership of the quorum. It looks at nothing while it is off."""

    def __init__(self, current: CurrentConfig, scheduler: Scheduler, quorum: QuorumHost) -> None:
        self._scheduler = scheduler
        self._quorum = quorum
        self._config = current.config
        self._balancing: Balancing | None = None
        self._timer: Timer | None = None
        current.when_changed(self._reconfigure)
        self._look()

    @property
    def standing(self) -> "BalancerStanding | None":
        """The standing; None while the mode is ``off`` or another node's controller is active."""
        return None if self._balancing is None or not self._quorum.is_active else self._balancing.standing

    def close(self) -> None:
        """End it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._balancing is not None:
            self._balancing.stop()

    def _reconfigure(self, config: BrokerConfig) -> None:
        self._config = config
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    def _look(self) -> None:
        self._timer = None
        is_on = self._config[BALANCER_MODE] != "off" or bool(self._config[BALANCER_MOVES])
        if self._balancing is not None:
            self._balancing.turn(self._config, is_wanted=is_on and self._quorum.is_active)
        elif is_on and self._quorum.is_active:
            from kpybroker.hosts.balancer.balancing import Balancing  # not of a plain start

            self._balancing = Balancing(self._scheduler, lambda: self._quorum.image)
            self._balancing.turn(self._config, is_wanted=True)
        if is_on:
            self._timer = self._scheduler.call_later(LOOK_MS, self._look)
        else:
            self._balancing = None
