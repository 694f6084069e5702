"""The options of Java's ``Krb5LoginModule`` in a JAAS config: the principal, and where its keys or tickets are.

Options that only steer the JVM (``debug``, ``refreshKrb5Config``, ``renewTGT``, ``doNotPrompt``) have no effect here. A
password is never asked for.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.machines.sasl.jaas import BrokenJaas, JaasEntry

MECHANISM: Final = "GSSAPI"
SERVICE_KEY: Final = "sasl.kerberos.service.name"
EXAMPLE: Final = (
    'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" '
    'principal="kafka/broker.example.com@EXAMPLE.COM";'
)


class Krb5Login(NamedTuple):
    """The options that count. An empty text is the default of Kerberos itself."""

    principal: str = ""
    """The name of the principal; empty for the owner of the tickets."""
    use_keytab: bool = False
    """Whether there is a keytab, from which tickets are got when they are needed. Otherwise they are in a cache."""
    keytab: str = ""
    """The path of the keytab."""
    ticket_cache: str = ""
    """The path of the cache of tickets."""
    service: str = ""
    """The first component of the name of the brokers' principals."""


def of_server(entry: JaasEntry, service: str | None) -> Krb5Login:
    """The login of a listener: it needs a keytab. ``service`` is the config `SERVICE_KEY`. Raises BrokenJaas."""
    login = _read(entry.options, service)
    if not login.use_keytab or not _is_true(entry.options, "storeKey"):
        raise BrokenJaas(f"a server needs useKeyTab=true and storeKey=true, as in: {EXAMPLE}")
    if not login.principal:
        raise BrokenJaas(f"there is no principal, as in: {EXAMPLE}")
    if "/" not in login.principal:
        raise BrokenJaas(f"the principal of a server has the form service/host@REALM, not {login.principal!r}")
    return login


def of_client(entry: JaasEntry, service: str | None) -> Krb5Login:
    """The login of a client, or of a node at others. Raises BrokenJaas."""
    login = _read(entry.options, service)
    if not login.use_keytab and not _is_true(entry.options, "useTicketCache"):
        raise BrokenJaas("it names neither a keytab (useKeyTab=true) nor a cache of tickets (useTicketCache=true)")
    if login.use_keytab and not login.principal:
        raise BrokenJaas(f"there is no principal for the keytab, as in: {EXAMPLE}")
    return login


def _read(options: Mapping[str, str], service: str | None) -> Krb5Login:
    use_keytab = _is_true(options, "useKeyTab")
    keytab, cache = options.get("keyTab", ""), options.get("ticketCache", "")
    if keytab and not use_keytab:
        raise BrokenJaas("keyTab has no effect without useKeyTab=true")
    if cache and not _is_true(options, "useTicketCache"):
        raise BrokenJaas("ticketCache has no effect without useTicketCache=true")
    configured = options.get("serviceName", "")
    if configured and service and configured != service:
        raise BrokenJaas(f"serviceName={configured} differs from {SERVICE_KEY}={service}")
    if not (configured or service):
        raise BrokenJaas(f"there is no serviceName, and no {SERVICE_KEY} either; the usual one is kafka")
    login = Krb5Login(options.get("principal", ""), use_keytab, keytab, cache, configured or service or "")
    if any("\0" in text for text in login if isinstance(text, str)):
        raise BrokenJaas("its options must not hold the character NUL")
    return login


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
