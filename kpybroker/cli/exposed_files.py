"""Files with secrets that other users of this machine may read, for ``kpybroker doctor`` and the start of a broker.

Only modes are read, never the content of a key file.
"""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SECRETS: Final = (
    *("password", "secret", "passphrase", "jaas.config", "keystore.key", "key.pem", "secret.key"),
    *("secret.access.key", "session.token", "credentials.json", "account.key", "sas.token", "connection.string"),
)
"""The ends of keys whose values are secrets, of Kafka's and librdkafka's clients, of brokers and of stores."""
_KEY_FILES: Final = (
    "ssl.keystore.location",
    "ssl.key.location",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.private.key.file",
    "private.key.file",
    "aws.credentials.file",
    "gcs.credentials.path",
)


def secrets_in(path: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The files that must be read by their owner alone, with what is secret in each: a file of properties, and the key
    files that it names."""
    names = sorted(name for name, value in properties.items() if value and name.endswith(_SECRETS))
    found = {path: ", ".join(names)} if names else {}
    files = {value: name for name, value in properties.items() if value and name.endswith(_KEY_FILES)}
    return {**files, **found}


def exposed(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """The files that others may read, each with what is secret in it. Files that are not there are left out."""
    return [(path, secret) for path, secret in files.items() if others_may_read(Path(path))]


def others_may_read(path: Path) -> bool:
    """Whether users outside the owner and its group may read a file."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
