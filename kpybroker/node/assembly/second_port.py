"""The protection of the second port: TLS with keys of its own, and the users that may log in there.

Users are the cluster's own, by their SCRAM credentials, or those of a file. Keys and the file are read again when they
have changed; what cannot be used is logged, and what was read before stays. Not here: the names of the port, and a port
without users (`kpybroker.node.assembly.ports`).
"""

import asyncio
import hmac
import logging
import os
import secrets
import ssl
import stat
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.properties import parse_properties
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.sasl.scram import MECHANISMS, ScramCredential, ScramMechanism
from kpybroker.requests.server.complaints import Complaints
from kpybroker.runtime.http.gate import Gate
from kpybroker.runtime.http.request import HttpRefused
from kpybroker.runtime.http.turns import Turns
from kpybroker.security.tls.contexts import server_context
from kpybroker.security.tls.settings import PEM, TlsError, TlsSettings
from kpybroker.security.tls.stores import modification_times

log = logging.getLogger("kpybroker.http")

USERS: Final = "kpybroker.http.users"
OF_THE_CLUSTER: Final = "scram"
KEYS: Final = "kpybroker.http.ssl.keystore.location"
MOST_REMEMBERED: Final = 128
"""The number of logins whose password is not computed again."""
MOST_WAITING: Final = 24
"""The number of logins that wait for their computation, which takes milliseconds."""
_DUMMY_CREDENTIAL: Final = ScramCredential(secrets.token_bytes(20), secrets.token_bytes(64), b"", 4096)
"""A credential that no password has: an unknown name takes as long as a wrong password."""
_SHOWN_CHARS: Final = 64


def keys_of(config: BrokerConfig) -> "PortKeys | None":
    """The keys of the port; None if it speaks plain HTTP. Raises StartRefused."""
    if not config[KEYS]:
        return None
    password = config["kpybroker.http.ssl.key.password"]
    return PortKeys(
        TlsSettings(
            keystore_type=PEM,
            keystore_location=config[KEYS],
            key_password=None if password is None else password.value,
        )
    )


def gate_of(config: BrokerConfig, image: Callable[[], MetadataImage | None], complaints: Complaints) -> Gate:
    """The login of the users that are configured. ``image`` returns the metadata, None before they are known. Raises
    StartRefused."""

    def failed(host: str, name: str) -> None:
        line = "login failed: basic authentication from %s on the second port: user %a"
        complaints.say(log, logging.WARNING, f"failed logins of {host}", line, host, name[:_SHOWN_CHARS])

    source = config[USERS]
    users = ClusterUsers(image) if source == OF_THE_CLUSTER else FileUsers(Path(source))
    return Gate(users, frozenset(config["kpybroker.http.open.paths"]), failed)


class PortKeys:
    """The TLS context of the port."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the keys. Raises StartRefused."""
        self._settings = settings
        self._times = modification_times(settings)
        try:
            self._context = server_context(settings)
        except TlsError as error:
            raise StartRefused(f"{KEYS}: {error}") from None

    def __call__(self) -> ssl.SSLContext:
        """The context for the next connection."""
        times = modification_times(self._settings)
        if times != self._times:
            self._times = times
            try:
                self._context = server_context(self._settings)
                log.info("The second port has read its keys and certificates again")
            except TlsError as error:
                log.warning("The second port keeps its former keys and certificates: %s", error)
        return self._context


class ClusterUsers:
    """The users with SCRAM credentials in the metadata."""

    def __init__(self, image: Callable[[], MetadataImage | None]) -> None:
        self._image = image
        self._secret = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        """Tags of logins that succeeded: of the name, the password, and the credential that they fitted."""
        self._turns = Turns(MOST_WAITING)

    async def __call__(self, name: str, password: str) -> bool:
        image = self._image()
        if image is None:
            raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the users are not known yet")
        mechanism, credential = _credential(image, name)
        words = (name.encode(), password.encode(), credential.stored_key)
        tag = hmac.digest(self._secret, b"".join(len(word).to_bytes(4) + word for word in words), "sha256")
        if tag in self._known:
            return True
        await self._turns.take()
        began_s = time.perf_counter()
        fits = False
        try:
            fits = await asyncio.to_thread(_fits, mechanism, credential, password)
        finally:
            # Guesses leave half of the time of one thread to others.
            self._turns.give_after(0 if fits else time.perf_counter() - began_s)
        if fits:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known.add(tag)
        return fits


def _credential(image: MetadataImage, name: str) -> tuple[ScramMechanism, ScramCredential]:
    for mechanism in MECHANISMS.values():
        record = image.scram_credentials.get((mechanism.code, name))
        if record is not None:
            return mechanism, ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
    return next(iter(MECHANISMS.values())), _DUMMY_CREDENTIAL


def _fits(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether a password has this credential. Runs in a thread: PBKDF2 takes milliseconds."""
    salted = mechanism.salted_password(password, credential.salt, credential.iterations)
    found = mechanism.credential(salted, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


class FileUsers:
    """The users of a file with lines ``name=password``, as in a properties file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises StartRefused."""
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._passwords: Mapping[str, str] = {}
        self._nobodys = secrets.token_urlsafe()
        try:
            self._passwords, self._seen = self._read(), self._state()
        except (OSError, ValueError, ConfigError) as error:
            raise StartRefused(
                f"{USERS}={path}: {_why(error)}; name `scram` or a file with lines name=password"
            ) from None
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning("%s=%s can be read by other users of this machine; chmod 600 it", USERS, path)

    async def __call__(self, name: str, password: str) -> bool:
        self._look()
        expected = self._passwords.get(name)
        given = (self._nobodys if expected is None else expected).encode()
        return hmac.compare_digest(given, password.encode()) and expected is not None

    def _look(self) -> None:
        try:
            state = self._state()
            if state != self._seen:
                self._passwords, self._seen = self._read(), state
        except (OSError, ValueError, ConfigError) as error:
            if self._seen is not None:
                log.warning("The users of %s stay as they were: %s", self._path, _why(error))
            self._seen = None

    def _state(self) -> tuple[int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size

    def _read(self) -> dict[str, str]:
        found = {name: each.value for name, each in parse_properties(self._path.read_text("utf-8")).items()}
        if not found or not all(found.values()):
            raise ValueError("it has no user" if not found else "a user has no password")
        return found


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
