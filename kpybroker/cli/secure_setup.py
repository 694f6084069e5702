"""``kpybroker start --secure``: lays out a node with TLS, logins and an authorizer, and finds it again later.

Everything is in the data directory, readable for this user alone. The files are written before the directory is
formatted, so the administrator's password is never lost; nothing that exists is replaced, except the server's
certificate when it nears its end or lacks a name, and the files for clients when the address changed.
"""

import os
import random
import secrets
import ssl
import stat
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from kpybroker.cli import secure_files
from kpybroker.client.certificate import of_der
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.properties import written_properties
from kpybroker.hosts.quorum.first_start import standalone_voters
from kpybroker.hosts.quorum.formatter import Formatting, format_directories, new_uuid
from kpybroker.hosts.quorum.scram_arguments import parse_scram
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.runtime.io.machine import name_of_this_machine
from kpybroker.runtime.io.private_files import make_private, write_private
from kpystorage.real_disk import RealDisk
from kpywire import uuid

RENEWED_BEFORE: Final = timedelta(days=120)
"""The least time that a server's certificate is valid after a start."""
OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::", "*")
HTTP_LISTENER: Final = "kpybroker.http.listener"
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
PASSWORD_BYTES: Final = 24
_FORMATTED: Final = "meta.properties"
_OF_FORMAT: Final = ("broker.id", "log.dir", "log.dirs", "metadata.log.dir", "node.id")
"""The configs that matter when directories are formatted."""


class SetupRefused(Exception):
    """Nothing was laid out; the message is one line for the user."""


class Laid(NamedTuple):
    """A node that is laid out."""

    directory: Path
    settings: Mapping[str, str]
    """The configs to start it with."""
    password: str
    is_new: bool
    """Whether the administrator was made by this start."""

    def __repr__(self) -> str:
        return f"Laid({str(self.directory)!r})"

    def write_client_files(self, host: str, port: int) -> str:
        """Write the files for clients, once the port is known. Return the address that they use."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for name, text in secure_files.client_files(address, self.directory, self.password).items():
            write_private(self.directory / name, text)
        return address


def lay_out(directory: Path, host: str, port: int, over: Mapping[str, str]) -> Laid:
    """Lay out a node that listens on an address, or find the one that is there. ``over``: configs of the user, which
    count before those of this set-up. Raises SetupRefused, ConfigError, OSError."""
    directory = directory.absolute()
    known = _password(directory)
    if known is None and (directory / _FORMATTED).exists():
        raise SetupRefused(
            f"{directory} holds the data of a node without --secure; name another directory by --data, or start this "
            "one as before"
        )
    planted = _planted(directory)
    if planted:
        raise SetupRefused(f"another user has made {planted[0]}, in a directory to which others may write; remove it")
    try:
        make_private(directory)
    except PermissionError:
        raise SetupRefused(
            f"{directory} belongs to another user and cannot be closed to others; name another directory by --data"
        ) from None
    password = known or secrets.token_urlsafe(PASSWORD_BYTES)
    listener = f"[{host}]:{port}" if ":" in host else f"{'' if host in EVERY_INTERFACE else host}:{port}"
    made = secure_files.server_settings(listener, directory, password)
    made |= secure_files.console_settings(over.get(HTTP_LISTENER), directory)
    settings = secure_files.merged(made, over)
    _certificates(directory, _names(host, settings), datetime.now(UTC))
    laid = Laid(directory, settings, password, known is None)
    if known is None:
        laid.write_client_files(_dialled(host), port)
    write_private(directory / secure_files.SERVER_PROPERTIES, written_properties(settings))
    if not (directory / _FORMATTED).exists():
        places = {key: value for key, value in settings.items() if key in _OF_FORMAT}
        _format(BrokerConfig.load(None, places), password)
    return laid


def _planted(directory: Path) -> list[Path]:
    """The files of this set-up that another user may have made, with keys or a password that it knows."""
    if not directory.exists() or not directory.stat().st_mode & OTHERS_WRITE:
        return []
    places = (directory / name for name in (secure_files.CA_KEY, secure_files.SERVER, secure_files.LIBRDKAFKA))
    return [path for path in places if os.path.lexists(path) and path.lstat().st_uid != os.geteuid()]


def _password(directory: Path) -> str | None:
    try:
        return secure_files.password_in((directory / secure_files.LIBRDKAFKA).read_text())
    except FileNotFoundError:
        return None


def _dialled(host: str) -> str:
    """The host by which clients on this machine reach a listener."""
    return "localhost" if host in EVERY_INTERFACE else host


def _names(host: str, settings: Mapping[str, str]) -> list[str]:
    """The names that the certificate must have: of this machine, of the listener, and those that are advertised."""
    advertised = [
        part.rpartition("://")[2].rpartition(":")[0].removeprefix("[").removesuffix("]")
        for part in settings.get("advertised.listeners", "").split(",")
    ]
    machine = [name_of_this_machine()] if host in EVERY_INTERFACE else [host]
    return list(dict.fromkeys(name for name in (*OWN_NAMES, *machine, *advertised) if name not in EVERY_INTERFACE))


def _certificates(directory: Path, names: list[str], now: datetime) -> None:
    """Make the authority at the first start, and a certificate of the server where none is good enough."""
    try:
        from kpybroker.security.tls.issuing import Authority
    except ImportError:
        raise SetupRefused(
            "--secure makes certificates by the library cryptography; install it: pip install 'kpybroker[security]'"
        ) from None
    key, server = directory / secure_files.CA_KEY, directory / secure_files.SERVER
    if key.exists():
        try:
            authority = Authority.read(key.read_text())
        except ValueError as error:
            raise SetupRefused(f"{key} does not hold the authority's key and certificate: {error}") from None
    else:
        authority = Authority.made("kpybroker authority", now)
        write_private(key, authority.issued.pem)
    if not (directory / secure_files.CA).exists():
        write_private(directory / secure_files.CA, authority.issued.certificate)
    present = _names_of(server, now)
    if present is None or not set(names) <= present:
        # Names that were there before stay: clients may use them.
        write_private(server, authority.issue("kpybroker", [*names, *sorted((present or set()) - set(names))], now).pem)


def _names_of(server: Path, now: datetime) -> set[str] | None:
    """The names of the server's certificate; None if there is none that is valid for long enough."""
    try:
        text = server.read_text()
        found = of_der(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :].strip()))
    except (FileNotFoundError, ValueError):
        return None
    return None if found is None or found.ends - now < RENEWED_BEFORE else set(found.names)


def _format(config: BrokerConfig, password: str) -> None:
    """Format the directory of a new node, with the administrator as its first user."""
    rng = random.SystemRandom()
    levels = choose_levels(None, {}, dynamic_quorum=True)
    administrator = f"{secure_files.MECHANISM}=[name={secure_files.ADMINISTRATOR},password={password}]"
    users = parse_scram([administrator], levels[metadata_version.FEATURE_NAME], rng)
    directories = sorted(str(Path(path).absolute()) for path in {*config.log_dirs, config.metadata_log_dir})
    metadata_directory = str(Path(config.metadata_log_dir).absolute())
    formatting = Formatting(
        uuid.to_string(new_uuid(rng)),
        config.node_id,
        directories,
        metadata_directory,
        levels,
        standalone_voters(config, rng),
        users,
    )
    format_directories(RealDisk(), formatting, rng, time.time_ns() // 1_000_000)
