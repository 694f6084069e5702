"""The quotas of a broker's clients, which follow the metadata. They are imported when the first quota is set."""

from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import Metadata
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.listener import Server
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.machines.quotas.addresses import AddressRates
    from kpybroker.requests.dispatching.throttling import Throttling


class FollowedQuotas:
    """The quotas as the committed metadata have them. The parts are None until the first quota is set."""

    def __init__(self, config: BrokerConfig, scheduler: Scheduler, dispatcher: Dispatcher, server: Server) -> None:
        self._config = config
        self._scheduler = scheduler
        self._dispatcher = dispatcher
        self._server = server
        self.throttling: Throttling | None = None
        self.addresses: AddressRates | None = None

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over what was committed."""
        entities = delta.kept.get("client_quotas")
        if not entities:
            return
        if self.throttling is None or self.addresses is None:
            self.throttling, self.addresses = self._parts()
        self.throttling.changed(list(entities), image.client_quotas)  # type: ignore[arg-type]
        self.addresses.changed()
        self._server.throttle_addresses(self.addresses.throttle_ms if self.addresses.is_on else None)

    def _parts(self) -> "tuple[Throttling, AddressRates]":
        from kpybroker.machines.quotas.addresses import AddressRates
        from kpybroker.machines.quotas.rate import QuotaWindows
        from kpybroker.requests.dispatching.throttling import Throttling

        windows = QuotaWindows(self._config["quota.window.num"], self._config["quota.window.size.seconds"] * 1_000)
        throttling = Throttling(self._dispatcher, self._scheduler, windows)
        return throttling, AddressRates(throttling.quotas, windows)


def follow_quotas(
    config: BrokerConfig, scheduler: Scheduler, dispatcher: Dispatcher, server: Server, quorum: Metadata
) -> FollowedQuotas:
    """The quotas of the clients that this dispatcher and this server serve."""
    followed = FollowedQuotas(config, scheduler, dispatcher, server)
    quorum.subscribe(followed.apply)
    return followed
