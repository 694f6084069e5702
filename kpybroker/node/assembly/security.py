"""The protection of a node: who may do what, how its listeners are encrypted, and how clients log in there."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.config import authorizer_configs
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.delegation_tokens import token_secret
from kpybroker.hosts.quorum.channel import Forwarding
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.endpoints import WITH_TLS, Listener
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import Metadata
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.channel import OpenChannel, plain_channel
from kpybroker.requests.server.frames import Dispatch

if TYPE_CHECKING:
    from kpybroker.machines.sasl.token_logins import TokenLogins
    from kpybroker.node.assembly.encryption import Encryption
    from kpybroker.node.assembly.logins import Logins
    from kpybroker.node.assembly.token_checks import TokenChecks

log = logging.getLogger("kpybroker.authorizer")

ACLS_WITHOUT_EFFECT: Final = (
    "The cluster has ACLs, and they have no effect on this node: it has no authorizer (authorizer.class.name)"
)


class Subject(NamedTuple):
    """The controller of this process, as guards see it."""

    authorizer: Authorizer | None
    image: MetadataImage


class NodeSecurity(NamedTuple):
    """The protection of one node."""

    authorizer: Authorizer | None
    """None if everybody may do everything."""
    logins: "Logins | None" = None
    """None if no listener demands a login."""
    encryption: "Encryption | None" = None
    """None if no listener has TLS."""

    def caught_up(self) -> None:
        """Note that everything committed when this node started is known. Until then only super users are served, on
        the listeners that other nodes need early."""
        if self.authorizer is not None:
            self.authorizer.caught_up()

    def starts_early(self, config: BrokerConfig) -> frozenset[str]:
        """The listeners that are served before everything committed is known, since the quorum needs them.

        With an authorizer these are the ``early.start.listeners``: by default those of controllers.
        """
        of_controllers = frozenset(config.controller_listener_names)
        named = config["early.start.listeners"]
        if self.authorizer is None or named is None:
            return of_controllers
        return of_controllers & frozenset(named)

    def forwarding(self, config: BrokerConfig, image: MetadataImage) -> Forwarding:
        """The treatment of requests that the broker forwards to the controller."""
        authorizer = self.authorizer
        if authorizer is not None:
            from kpybroker.requests.guards.stage import admit_to  # not of a plain start

            return Forwarding(admit_to(Subject(authorizer, image)), in_envelopes=True)
        return Forwarding(in_envelopes=any(listener.protocol != "PLAINTEXT" for listener in config.listeners))

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
    from kpybroker.node.assembly.encryption import Encryption

    encryption = Encryption(config, platform.scheduler)
    encryption.start()
    platform.ends.callback(encryption.close)
    return encryption


async def fetch_keys(config: BrokerConfig, platform: Platform) -> "TokenChecks | None":
    """The checks of OAUTHBEARER tokens, with the keys of identity providers; None if no listener has OAUTHBEARER.

    Raises StartRefused."""
    with_sasl = [listener.name for listener in config.listeners if listener.protocol.startswith("SASL_")]
    if not with_sasl:
        return None
    from kpybroker.config.logins import logins_of

    rules = [each.tokens for name in with_sasl for each in logins_of(config, name).mechanisms if each.tokens]
    if not rules:
        return None
    from kpybroker.node.assembly.token_checks import TokenChecks

    checks = TokenChecks(platform.scheduler)
    await asyncio.to_thread(checks.load, {each.keys for each in rules if each.keys is not None})
    checks.start()
    platform.ends.callback(checks.close)
    return checks


def build_security(
    config: BrokerConfig,
    quorum: Metadata,
    encryption: "Encryption | None" = None,
    tokens: "TokenChecks | None" = None,
) -> NodeSecurity:
    """The protection that the configuration demands; its ACLs follow the metadata."""
    authorizer = _authorizer(config)
    if authorizer is not None:

        def changed(image: MetadataImage, delta: MetadataDelta) -> None:
            acls = delta.kept.get("acls")
            if acls:
                authorizer.acls_changed(image.acls, [each for each in acls if isinstance(each, bytes)])

        quorum.subscribe(changed)
    else:
        _warn_of_acls(quorum)
    return NodeSecurity(authorizer, _logins(config, quorum, tokens), encryption)


def _warn_of_acls(quorum: Metadata) -> None:
    """Warn once, on a node without an authorizer, if there are ACLs."""
    had_acls = False

    def changed(image: MetadataImage, delta: MetadataDelta) -> None:
        nonlocal had_acls
        if not had_acls and delta.kept.get("acls") and image.acls:
            had_acls = True
            log.warning(ACLS_WITHOUT_EFFECT)

    quorum.subscribe(changed)


def _logins(config: BrokerConfig, quorum: Metadata, tokens: "TokenChecks | None") -> "Logins | None":
    if not any(listener.protocol.startswith("SASL_") for listener in config.listeners):
        return None
    from kpybroker.node.assembly.logins import Logins, Users, no_tokens
    from kpybroker.node.assembly.strangers import strangers

    by_token = _token_logins(config, quorum)
    find_token = no_tokens if by_token is None else by_token.find
    users = Users(lambda: quorum.image, find_token, strangers(config, quorum, by_token), tokens)
    return Logins(config, users)


def _token_logins(config: BrokerConfig, quorum: Metadata) -> "TokenLogins | None":
    """The logins by delegation token, which follow the metadata; None if there are none."""
    from kpybroker.machines.sasl.token_logins import TokenLogins

    secret = token_secret(config)
    if secret is None:
        return None
    logins = TokenLogins(secret, lambda token_id: quorum.image.delegation_tokens.get(token_id))

    def changed(image: MetadataImage, delta: MetadataDelta) -> None:
        ids = delta.kept.get("delegation_tokens", ())
        logins.forget(str(token_id) for token_id in ids if token_id not in image.delegation_tokens)

    quorum.subscribe(changed)
    return logins


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    if not config[authorizer_configs.AUTHORIZER]:
        return None
    new: type[Authorizer] = Authorizer
    if config.is_in_zookeeper_mode:
        from kpybroker.machines.authorization.acl_authorizer import AclAuthorizer  # not of a plain start

        new = AclAuthorizer
    return new(
        authorizer_configs.super_users(config.originals),
        allows_without_acl=authorizer_configs.allows_without_acl(config.originals),
        awaits_acls=True,
    )
