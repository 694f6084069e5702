"""Security contexts of Kerberos: `kpybroker.machines.sasl.gssapi.Context` over the library ``gssapi``.

Keytabs, caches of tickets and replay caches are files, and a client asks a KDC. So what is here is called in threads,
or where blocking does no harm. The library releases the GIL meanwhile. ``krb5.conf`` and the variables of the
environment (``KRB5_CONFIG``, ``KRB5_KTNAME``, ``KRB5CCNAME``) count as for every program with MIT Kerberos.
"""

from functools import cache
from itertools import count
from typing import Any, Final

from kpybroker.machines.sasl.gssapi import GssFailure
from kpybroker.machines.sasl.krb5_login import Krb5Login

INSTALL: Final = "GSSAPI needs the extra kpybroker[kerberos]: pip install 'kpybroker[kerberos]'"
_FIRST_CODE: Final = -1765328384
"""The beginning of the errors of Kerberos' protocol among all minor codes of the library (``krb5_err.et``)."""
_CODES: Final = 128
_numbers = count()


class SecurityContext:
    """One side of a connection."""

    def __init__(self, made: Any) -> None:
        self._made = made
        # An error is raised by the step that has it, and not by the next one after a token for the other side.
        made.__DEFER_STEP_ERRORS__ = False

    @property
    def is_complete(self) -> bool:
        """Whether nothing more has to be exchanged."""
        return bool(self._made.complete)

    def step(self, token: bytes) -> bytes:
        """Take a token. Return the token for the other side."""
        return _checked(lambda: self._made.step(token or None)) or b""

    def initiator(self) -> str:
        """The name of the client's principal."""
        name: bytes = _checked(lambda: bytes(self._made.initiator_name))
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise GssFailure("the name of the principal is not UTF-8") from None

    def wrap(self, message: bytes) -> bytes:
        """A message whose integrity is protected."""
        wrapped: bytes = _checked(lambda: self._made.wrap(message, encrypt=False)).message
        return wrapped

    def unwrap(self, message: bytes) -> bytes:
        """The content of such a message of the other side."""
        content: bytes = _checked(lambda: self._made.unwrap(message)).message
        return content


class Acceptor:
    """The keys of a listener."""

    def __init__(self, login: Krb5Login) -> None:
        self._login = login

    def check(self) -> None:
        """Raise GssFailure if the keytab cannot be used."""
        self._credentials()

    def context(self) -> SecurityContext:
        """A context for a client that connects. Reads the keytab as it is now."""
        return SecurityContext(_library().SecurityContext(creds=self._credentials(), usage="accept"))

    def _credentials(self) -> Any:
        library, login = _library(), self._login
        store = {"keytab": login.keytab} if login.keytab else None

        def made() -> Any:
            return library.Credentials(name=_principal(login.principal), usage="accept", store=store)

        where = login.keytab or "the default keytab"
        return _checked(made, f"{where}: no key of {login.principal} can be read")


class Initiator:
    """The tickets of a client. With a keytab they are kept in memory, and the library renews them from half of their
    life on, whenever a connection needs them; others renew a cache of tickets."""

    def __init__(self, login: Krb5Login) -> None:
        self._login = login
        self._cache = f"MEMORY:kpybroker-{next(_numbers)}" if login.use_keytab else login.ticket_cache

    def context(self, host: str) -> SecurityContext:
        """A context for a connection to a host. May ask the KDC."""
        library, login = _library(), self._login
        flag = library.RequirementFlag

        def made() -> Any:
            target = library.Name(f"{login.service}@{host}", library.NameType.hostbased_service)
            return library.SecurityContext(
                name=target,
                creds=self._credentials(),
                mech=library.MechType.kerberos,
                flags=flag.mutual_authentication | flag.integrity,
                usage="initiate",
            )

        return SecurityContext(_checked(made))

    def _credentials(self) -> Any:
        library, login = _library(), self._login
        store = {"ccache": self._cache} if self._cache else {}
        if login.use_keytab:
            store["client_keytab"] = login.keytab or _default_keytab()

        def made() -> Any:
            name = _principal(login.principal) if login.principal else None
            return library.Credentials(name=name, usage="initiate", store=store or None)

        caller = login.principal or "this user"
        where = f" by the keytab {store['client_keytab']}" if login.use_keytab else ""
        return _checked(made, f"no ticket for {caller}{where}")


def default_realm() -> str:
    """The default realm of ``krb5.conf``; empty if there is none."""
    try:
        name = str(_checked(lambda: _principal("user").canonicalize(_library().MechType.kerberos)))
    except GssFailure:
        return ""
    return name.rpartition("@")[2]


@cache
def _library() -> Any:
    try:
        import gssapi
    except (ImportError, OSError) as error:
        # OSError: the package is there, and the libraries of the system are not.
        missing = isinstance(error, ModuleNotFoundError) and error.name == "gssapi"
        raise GssFailure(INSTALL if missing else f"GSSAPI: the libraries of Kerberos cannot be used: {error}") from None
    return gssapi


def _default_keytab() -> str:
    import os

    return os.environ.get("KRB5_KTNAME", "/etc/krb5.keytab")


def _principal(name: str) -> Any:
    library = _library()
    return library.Name(name, library.NameType.kerberos_principal)


def _checked(work: Any, what: str = "") -> Any:
    """The result of a call of the library, whose errors become GssFailure."""
    exceptions = _library().exceptions
    try:
        return work()
    except exceptions.GSSError as error:
        raise _failure(error, what) from None


def _failure(error: Any, what: str) -> GssFailure:
    code = _signed(error.min_code) - _FIRST_CODE
    major = " ".join(error.get_all_statuses(error.maj_code, is_maj=True))
    text = " ".join(error.get_all_statuses(error.min_code, is_maj=False)) if error.min_code else major
    text = text.strip().rstrip(".")
    return GssFailure(f"{what}: {text}" if what else text, code if 0 < code < _CODES else 0)


def _signed(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
