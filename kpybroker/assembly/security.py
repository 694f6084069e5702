"""The protection of a node: who may do what, how its listeners are encrypted, and how clients log in there."""

from typing import TYPE_CHECKING, NamedTuple

from kpybroker.assembly.platform import Platform
from kpybroker.authorization.authorizer import Authorizer
from kpybroker.calls.principal import parse_principal
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import ConfigError
from kpybroker.config.endpoints import WITH_TLS, Listener
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.quorum.host import QuorumHost
from kpybroker.server.channel import OpenChannel, plain_channel
from kpybroker.server.frames import Dispatch

if TYPE_CHECKING:
    from kpybroker.assembly.encryption import Encryption
    from kpybroker.assembly.logins import Logins


class Security(NamedTuple):
    """The protection of one node."""

    authorizer: Authorizer | None
    """None if everybody may do everything."""
    logins: "Logins | None" = None
    """None if no listener demands a login."""
    encryption: "Encryption | None" = None
    """None if no listener has TLS."""

    def channel_of(self, listener: Listener) -> OpenChannel:
        """The function that makes the channels of a listener's connections."""
        if listener.protocol in WITH_TLS:
            assert self.encryption is not None
            return self.encryption.channel_of(listener)
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
        if self.encryption is not None:
            self.encryption.reconfigure(config)


def read_keys(config: BrokerConfig, platform: Platform) -> "Encryption | None":
    """The TLS of the listeners, with its keys and certificates. Raises StartRefused."""
    if not any(listener.protocol in WITH_TLS for listener in config.listeners):
        return None
    from kpybroker.assembly.encryption import Encryption

    encryption = Encryption(config, platform.scheduler)
    encryption.start()
    platform.ends.callback(encryption.close)
    return encryption


def build_security(config: BrokerConfig, quorum: QuorumHost, encryption: "Encryption | None" = None) -> Security:
    """The protection that the configuration demands; its ACLs follow the metadata."""
    authorizer = _authorizer(config)
    if authorizer is not None:

        def changed(image: MetadataImage, delta: MetadataDelta) -> None:
            acls = delta.kept.get("acls")
            if acls:
                authorizer.acls_changed(image.acls, [each for each in acls if isinstance(each, bytes)])

        quorum.subscribe(changed)
    return Security(authorizer, _logins(config, quorum), encryption)


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
