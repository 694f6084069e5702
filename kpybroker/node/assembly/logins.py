"""The logins of a node's listeners: the mechanisms by name, and where each finds its users."""

import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.logins import MechanismConfig, jaas_key, logins_of
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.endpoints import Listener
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.sasl import kerberos_names, krb5_login
from kpybroker.machines.sasl.exchange import ServerExchange
from kpybroker.machines.sasl.gssapi import GssapiServer, GssFailure
from kpybroker.machines.sasl.kerberos_names import ShortNamer
from kpybroker.machines.sasl.login import LoginTerms
from kpybroker.machines.sasl.plain import PlainServer
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, ScramMechanism
from kpybroker.machines.sasl.scram_server import ScramLogin, ScramServer
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.dispatching.late_refusals import LateRefusals
from kpybroker.requests.dispatching.login import LoginStage
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from kpybroker.node.assembly.token_checks import TokenChecks

log = logging.getLogger("kpybroker.login")

NewExchange = Callable[[], ServerExchange]
FindToken = Callable[[ScramMechanism, str], ScramLogin | None]
"""(mechanism, id of a delegation token) -> the login of its owner, or None if there is no such token."""
MakeUpUser = Callable[[ScramMechanism, str, bool], ScramCredential]
"""(mechanism, name, whether it is the id of a delegation token) -> a credential for the challenge of a stranger."""
_USER_OPTION: Final = "user_"


class Users(NamedTuple):
    """The sources of users that the mechanisms have in addition to their JAAS configs."""

    image: Callable[[], MetadataImage]
    find_token: FindToken
    make_up: MakeUpUser
    tokens: "TokenChecks | None" = None
    """None if no listener has OAUTHBEARER."""


def plain(config: MechanismConfig, _users: Users) -> NewExchange:
    """PLAIN. Its users are the options ``user_NAME`` of its login module."""
    options = config.entry.options.items()
    passwords = {name.removeprefix(_USER_OPTION): text for name, text in options if name.startswith(_USER_OPTION)}
    return partial(PlainServer, lambda: passwords)


def scram(mechanism: ScramMechanism, _config: MechanismConfig, users: Users) -> NewExchange:
    """SCRAM. Its users are those of the metadata, and owners of delegation tokens."""

    def find(name: str, by_token: bool) -> ScramLogin | None:  # noqa: FBT001 - the form of `Find`
        if by_token:
            return users.find_token(mechanism, name)
        record = users.image().scram_credentials.get((mechanism.code, name))
        return None if record is None else ScramLogin(credential_of(record), name)

    make_up = partial(users.make_up, mechanism)
    return lambda: ScramServer(mechanism, find, secrets.token_urlsafe(24), make_up)


def oauthbearer(config: MechanismConfig, users: Users) -> NewExchange:
    """OAUTHBEARER. Its users are those of an identity provider."""
    from kpybroker.machines.sasl.oauthbearer import OAuthBearerServer

    assert config.tokens is not None
    assert users.tokens is not None
    return partial(OAuthBearerServer, users.tokens.of(config.tokens))


def gssapi(config: MechanismConfig, _users: Users) -> NewExchange:
    """GSSAPI. Its users are the principals of Kerberos, named by the rules of the listener. Raises GssFailure if the
    keytab cannot be used."""
    from kpybroker.security.kerberos.contexts import Acceptor, default_realm

    acceptor = Acceptor(krb5_login.of_server(config.entry, config.value(krb5_login.SERVICE_KEY)))
    acceptor.check()
    namer = ShortNamer(config.value(kerberos_names.KEY), default_realm())
    return lambda: GssapiServer(acceptor.context, namer)


MECHANISMS: Final[Mapping[str, Callable[[MechanismConfig, Users], NewExchange]]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": partial(scram, SCRAM_SHA_256),
    "SCRAM-SHA-512": partial(scram, SCRAM_SHA_512),
    "OAUTHBEARER": oauthbearer,
    krb5_login.MECHANISM: gssapi,
}
"""The mechanisms that clients can use (`kpybroker.config.logins.SERVED_MECHANISMS`)."""
BLOCKING: Final = frozenset((krb5_login.MECHANISM,))
"""The mechanisms whose exchanges read files."""


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    """The credential in a record of the metadata."""
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def no_tokens(_mechanism: ScramMechanism, _token_id: str) -> ScramLogin | None:
    """A `FindToken` without delegation tokens."""
    return None


class Logins:
    """The stages of all listeners with SASL, which follow the configuration."""

    def __init__(self, config: BrokerConfig, users: Users) -> None:
        self._config = config
        self._users = users
        self._refusals = LateRefusals(config["connection.failed.authentication.delay.ms"])
        self.stages: dict[str, LoginStage] = {}
        """The stage of each listener, by the listener's name."""

    def stage(self, listener: Listener, dispatcher: Dispatcher) -> LoginStage:
        """The stage before the dispatcher of a listener."""
        most_bytes = logins_of(self._config, listener.name).max_receive_bytes
        try:
            terms = self._terms(self._config, listener.name)
        except GssFailure as why:
            raise StartRefused(f"{jaas_key(listener.name, krb5_login.MECHANISM)}: {why}") from None
        stage = LoginStage(dispatcher, terms, listener.protocol, most_bytes, self._refusals)
        self.stages[listener.name] = stage
        return stage

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply another configuration to the connections that are made from now on."""
        self._config = config
        for name, stage in self.stages.items():
            try:
                stage.change_terms(self._terms(config, name))
            except GssFailure as why:
                log.warning("listener %s keeps its former logins: %s", name, why)

    def _terms(self, config: BrokerConfig, listener: str) -> LoginTerms:
        mechanisms = logins_of(config, listener).mechanisms
        return LoginTerms(
            {each.name: MECHANISMS[each.name](each, self._users) for each in mechanisms},
            {each.name: each.reauth_ms for each in mechanisms},
            BLOCKING,
        )
