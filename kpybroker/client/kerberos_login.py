"""The login of a client by Kerberos: GSSAPI with a keytab, or with the tickets of ``kinit``.

The properties are Kafka's (``sasl.jaas.config`` with ``Krb5LoginModule``, ``sasl.kerberos.service.name``), or
librdkafka's (``sasl.kerberos.keytab``, ``sasl.kerberos.principal``). With neither, the user's own tickets count.
"""

from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from kpybroker.client.bad_property import BadProperty
from kpybroker.machines.sasl import krb5_login
from kpybroker.machines.sasl.exchange import ClientExchange
from kpybroker.machines.sasl.jaas import BrokenJaas, JaasEntry
from kpybroker.machines.sasl.krb5_login import Krb5Login

if TYPE_CHECKING:
    from kpybroker.security.kerberos.contexts import Initiator

KEYTAB_KEY: Final = "sasl.kerberos.keytab"
PRINCIPAL_KEY: Final = "sasl.kerberos.principal"


class KerberosLogin:
    """A principal whose tickets prove who it is."""

    mechanism: Final = krb5_login.MECHANISM
    may_block: Final = True
    to_check: Final = "its principal and its keytab or tickets"

    def __init__(self, login: Krb5Login) -> None:
        self.login = login
        self.identity = f"principal {login.principal!r}" if login.principal else "the owner of the tickets"

    def __repr__(self) -> str:
        return f"KerberosLogin({self.login.principal!r})"

    @cached_property
    def _initiator(self) -> "Initiator":
        from kpybroker.security.kerberos.contexts import Initiator

        return Initiator(self.login)

    def exchange(self, _nonce: str, host: str) -> ClientExchange:
        """The client's half of one login at a host."""
        from kpybroker.machines.sasl.gssapi import GssapiClient

        return GssapiClient(partial(self._initiator.context, host))


def kerberos_login(configured: Mapping[str, str], entry: JaasEntry | None) -> KerberosLogin:
    """The login that properties ask for; ``entry`` is their JAAS config. Raises BadProperty."""
    service = configured.get(krb5_login.SERVICE_KEY)
    keytab, principal = configured.get(KEYTAB_KEY, ""), configured.get(PRINCIPAL_KEY, "")
    if entry is None:
        if not service:
            raise BadProperty(f"GSSAPI needs {krb5_login.SERVICE_KEY}; the usual one is kafka")
        if keytab and not principal:
            raise BadProperty(f"{KEYTAB_KEY} needs {PRINCIPAL_KEY}: whose key is it?")
        return KerberosLogin(Krb5Login(principal, bool(keytab), keytab, "", service))
    if keytab or principal:
        raise BadProperty(
            f"sasl.jaas.config and {KEYTAB_KEY if keytab else PRINCIPAL_KEY} are both set; give one of them"
        )
    try:
        return KerberosLogin(krb5_login.of_client(entry, service))
    except BrokenJaas as why:
        raise BadProperty(f"sasl.jaas.config: {why}") from None
