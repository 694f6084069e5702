"""The login of a ZooKeeper client in Java's login configuration file: its section ``Client``. Pure.

The file is named by ``-Djava.security.auth.login.config=FILE`` in ``KAFKA_OPTS``, as for Kafka. It holds passwords, so
messages about it name positions and modules, and nothing else.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.machines.sasl import krb5_login
from kpybroker.machines.sasl.jaas import KRB5_MODULE, BrokenJaas, JaasEntry
from kpybroker.machines.sasl.jaas_file import java_option, parse_file, path_in
from kpybroker.machines.sasl.krb5_login import Krb5Login

SECTION_OPTION: Final = "-Dzookeeper.sasl.clientconfig="
SWITCH_OPTION: Final = "-Dzookeeper.sasl.client="
SERVICE_OPTION: Final = "-Dzookeeper.sasl.client.username="
PRINCIPAL_OPTION: Final = "-Dzookeeper.server.principal="
SERVICE: Final = "zookeeper"
"""The first component of the principals of ZooKeeper's servers, unless an option says otherwise."""
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class BrokenJaasFile(ValueError):
    """The file does not say how to log in to ZooKeeper, in one line without a secret."""


class DigestLogin(NamedTuple):
    """A name and a password for DIGEST-MD5."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


class JaasSection(NamedTuple):
    """The file and the section that the options of a JVM name, and the principal of the servers for Kerberos."""

    file: str
    section: str
    service: str = SERVICE
    host: str = ""
    """The second component of that principal; empty for the host of each server as ``zookeeper.connect`` has it."""


def place_of(kafka_opts: str) -> JaasSection | None:
    """The place that ``KAFKA_OPTS`` names; None if there is no login."""
    if java_option(kafka_opts, SWITCH_OPTION).lower() == "false":
        return None
    file = path_in(kafka_opts)
    if not file:
        return None
    service, host = java_option(kafka_opts, SERVICE_OPTION) or SERVICE, ""
    if principal := java_option(kafka_opts, PRINCIPAL_OPTION):
        service, _, host = principal.partition("@")[0].partition("/")
    return JaasSection(file, java_option(kafka_opts, SECTION_OPTION) or "Client", service, host)


def login_of(text: str, section: str, service: str = SERVICE, kafka_opts: str = "") -> DigestLogin | Krb5Login | None:
    """The login in a section of a file; None if the file has no such section. ``service`` is that of the servers, for
    Kerberos. Only the first login module of a section counts. Raises BrokenJaasFile."""
    try:
        modules = parse_file(text, kafka_opts).get(section)
    except BrokenJaas as error:
        raise BrokenJaasFile(str(error)) from None
    return None if modules is None else _login(*modules[0], service)


def _login(module: str, options: Mapping[str, str], service: str) -> DigestLogin | Krb5Login:
    if module == KRB5_MODULE:
        try:
            # as in Java, a serviceName is one of Kafka's clients and has no meaning here
            ours = {name: value for name, value in options.items() if name != "serviceName"}
            return krb5_login.of_client(JaasEntry(module, ours), service)
        except BrokenJaas as error:
            raise BrokenJaasFile(str(error)) from None
    if module != DIGEST_MODULE:
        known = f"{DIGEST_MODULE} and {KRB5_MODULE} are"
        raise BrokenJaasFile(f"the login module {module[:128]!r} is not available for ZooKeeper; {known}")
    user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        raise BrokenJaasFile(f"the login module has no {'password' if user else 'username'}")
    return DigestLogin(user, password)
