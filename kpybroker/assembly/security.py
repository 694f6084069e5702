"""The protection of a node: who may do what, how its listeners are encrypted, and how clients log in there."""

from typing import NamedTuple

from kpybroker.authorization.authorizer import Authorizer
from kpybroker.config import authorizer_configs
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.endpoints import Listener
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.quorum.channel import Forwarding
from kpybroker.quorum.host import QuorumHost
from kpybroker.server.channel import OpenChannel, plain_channel
from kpybroker.server.frames import Dispatch


class Subject(NamedTuple):
    """The controller of this process, as guards see it."""

    authorizer: Authorizer | None
    image: MetadataImage


class Security(NamedTuple):
    """The protection of one node."""

    authorizer: Authorizer | None
    """None if everybody may do everything."""

    def caught_up(self) -> None:
        """Note that everything committed when this node started is known. Until then only super users are served, on
        the listeners that other nodes need early."""
        if self.authorizer is not None:
            self.authorizer.awaits_acls = False

    def forwarding(self, config: BrokerConfig, image: MetadataImage) -> Forwarding:
        """The treatment of requests that the broker forwards to the controller."""
        authorizer = self.authorizer
        if authorizer is not None:
            from kpybroker.guards.stage import admit_to  # not of a plain start

            return Forwarding(admit_to(Subject(authorizer, image)), in_envelopes=True)
        return Forwarding(in_envelopes=any(listener.protocol != "PLAINTEXT" for listener in config.listeners))

    def channel_of(self, listener: Listener) -> OpenChannel:
        """The function that makes the channels of a listener's connections."""
        assert listener.protocol == "PLAINTEXT"  # others are refused with the configuration
        return plain_channel

    def guarded(self, listener: Listener, dispatcher: Dispatcher) -> Dispatch:
        """The server of a listener's requests: its dispatcher, behind a login where one is demanded."""
        assert listener.protocol == "PLAINTEXT"
        return dispatcher


def build_security(config: BrokerConfig, quorum: QuorumHost) -> Security:
    """The protection that the configuration demands; its ACLs follow the metadata."""
    authorizer = _authorizer(config)
    if authorizer is not None:
        authorizer.awaits_acls = True

        def changed(image: MetadataImage, delta: MetadataDelta) -> None:
            acls = delta.kept.get("acls")
            if acls:
                authorizer.acls_changed(image.acls, [each for each in acls if isinstance(each, bytes)])

        quorum.subscribe(changed)
    return Security(authorizer)


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    if not config[authorizer_configs.AUTHORIZER]:
        return None
    return Authorizer(
        authorizer_configs.super_users(config.originals),
        allows_without_acl=authorizer_configs.allows_without_acl(config.originals),
    )
