"""The protection of a node: who may do what, how its listeners are encrypted, and how clients log in there."""

from typing import TYPE_CHECKING, NamedTuple

from kpybroker.authorization.authorizer import Authorizer
from kpybroker.calls.principal import parse_principal
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import ConfigError
from kpybroker.config.endpoints import Listener
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.quorum.host import QuorumHost
from kpybroker.server.channel import OpenChannel, plain_channel
from kpybroker.server.frames import Dispatch

if TYPE_CHECKING:
    from kpybroker.assembly.logins import Logins


class Security(NamedTuple):
    """The protection of one node."""

    authorizer: Authorizer | None
    """None if everybody may do everything."""
    logins: "Logins | None" = None
    """None if no listener demands a login."""

    def channel_of(self, listener: Listener) -> OpenChannel:
        """The function that makes the channels of a listener's connections."""
        assert listener.protocol in ("PLAINTEXT", "SASL_PLAINTEXT")  # others are refused with the configuration
        return plain_channel

    def guarded(self, listener: Listener, dispatcher: Dispatcher) -> Dispatch:
        """The server of a listener's requests: its dispatcher, behind a login where one is demanded."""
        if listener.protocol.startswith("SASL_"):
            assert self.logins is not None
            return self.logins.stage(listener, dispatcher)
        return dispatcher

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply another configuration to what begins from now on."""
        if self.logins is not None:
            self.logins.reconfigure(config)


def build_security(config: BrokerConfig, quorum: QuorumHost) -> Security:
    """The protection that the configuration demands; its ACLs follow the metadata."""
    authorizer = _authorizer(config)
    if authorizer is not None:

        def changed(image: MetadataImage, delta: MetadataDelta) -> None:
            acls = delta.kept.get("acls")
            if acls:
                authorizer.acls_changed(image.acls, [each for each in acls if isinstance(each, bytes)])

        quorum.subscribe(changed)
    return Security(authorizer, _logins(config, quorum))


def _logins(config: BrokerConfig, quorum: QuorumHost) -> "Logins | None":
    if not any(listener.protocol.startswith("SASL_") for listener in config.listeners):
        return None
    import secrets

    from kpybroker.assembly.logins import Logins, Users, no_tokens

    return Logins(config, Users(lambda: quorum.image, no_tokens, secrets.token_bytes(32)))


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    if not config["authorizer.class.name"]:
        return None
    names = [name.strip() for name in config.originals.get("super.users", "").split(";")]
    try:
        super_users = frozenset(parse_principal(name) for name in names if name)
    except ValueError as error:
        raise ConfigError(f"super.users: {error}") from None
    allows = config.originals.get("allow.everyone.if.no.acl.found", "false").strip().lower() == "true"
    return Authorizer(super_users, allows_without_acl=allows)
