"""Environment variables of Kafka's container images as broker configs.

``KAFKA_LOG_DIRS`` is ``log.dirs``: the prefix is removed, letters become lower case, ``_`` becomes ``.``, ``__``
becomes ``_`` and ``___`` becomes ``-`` (the rule of the apache/kafka image). ``KAFKA_CFG_`` is understood as well, for
compose files written for another image. As in Kafka's images a variable becomes a line of a properties file, so escapes
and continued lines mean there what they mean in such a file. Variables that set up a JVM, and those Kubernetes makes
for a service called kafka, are not configs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kpybroker.config.properties import parse_properties
from kpybroker.machines.config_def import ConfigError

SECRETS: Final = Path("/etc/kafka/secrets")
"""The folder of the files that the variables of `OF_SECRETS` name."""

NOT_CONFIGS: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_HOME",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_PORT",
    }
)
NOT_CONFIG_PREFIXES: Final = ("KAFKA_LOG4J_", "KAFKA_JMX_", "KAFKA_PORT_", "KAFKA_SERVICE_")
_PREFIXES: Final = ("KAFKA_", "KAFKA_CFG_")

OF_SECRETS: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""The variables that name a file of secrets, with the configs they set: to the file, or to the password in it. Each may
be for one listener: ``KAFKA_LISTENER_NAME_{listener}_SSL_...``."""
_OF_LISTENER: Final = re.compile("KAFKA_(LISTENER_NAME_.+_)(SSL_(?:KEYSTORE|KEY|TRUSTSTORE)_(?:FILENAME|CREDENTIALS))")


def from_environment(environment: Mapping[str, str], secrets: Path = SECRETS) -> dict[str, str]:
    """The broker configs that ``environment`` sets, by Kafka name. Raises ConfigError in one line without a secret.

    Without ``listeners``, a broker listens on every interface at the ports of ``advertised.listeners``, as in Kafka's
    image.
    """
    configs: dict[str, str] = {}
    for prefix in _PREFIXES:
        for variable, value in environment.items():
            if variable.startswith(prefix) and not _is_no_config(variable):
                configs |= _as_lines(variable, _config_name(variable.removeprefix(prefix)), value)
    for variable in environment:
        if variable.startswith("KAFKA_CFG_"):
            configs.pop(_config_name(variable.removeprefix("KAFKA_")), None)
    configs |= _of_secrets(environment, configs, secrets)
    for name in ("advertised.listeners", "listeners"):
        if configs.get(name) == "":
            del configs[name]  # as if the variable was not there, in Kafka's images too
    advertised = configs.get("advertised.listeners")
    if advertised and "listeners" not in configs and configs.get("process.roles") != "controller":
        configs["listeners"] = ",".join(_on_every_interface(uri) for uri in advertised.split(","))
    return configs


def _as_lines(variable: str, name: str, value: str) -> dict[str, str]:
    """The configs of a variable, as a properties file with its value would have them."""
    return {key: each.value for key, each in parse_properties(f"{name}={value}\n", variable).items()}


def _of_secrets(environment: Mapping[str, str], configs: Mapping[str, str], secrets: Path) -> dict[str, str]:
    """The configs of files in the folder of secrets. As in Kafka's images they count before variables for the same
    configs where a listener with TLS is advertised, and a trust store is needed only to ask clients for
    certificates."""
    found: dict[str, str] = {}
    is_advertised = "SSL://" in configs.get("advertised.listeners", "")
    asks_clients = configs.get("ssl.client.auth", "") in ("required", "requested")
    for variable, file in environment.items():
        listener, name = _secret_of(variable)
        if not name or not file or (name in configs and (listener or not is_advertised)):
            continue
        path = secrets / file
        if not path.exists():
            if listener or (name.startswith("ssl.truststore.") and not asks_clients):
                continue
            raise ConfigError(f"{variable} names a file that does not exist: {path}")
        if name.endswith(".location"):
            found[name] = str(path)
        else:
            found |= _as_lines(variable, name, _password_in(variable, path))
    return found


def _secret_of(variable: str) -> tuple[str, str]:
    """The prefix of a listener, and the config that a variable sets by the name of a file; empty if it sets none."""
    found = _OF_LISTENER.fullmatch(variable)
    if found is None:
        return "", OF_SECRETS.get(variable, "")
    listener = _config_name(found[1])
    return listener, listener + OF_SECRETS[f"KAFKA_{found[2]}"] if f"KAFKA_{found[2]}" in OF_SECRETS else ""


def _password_in(variable: str, path: Path) -> str:
    try:
        return path.read_text("utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{variable} names a file that cannot be read: {path}: {why}") from None


def _is_no_config(variable: str) -> bool:
    if variable in NOT_CONFIGS or variable.startswith(NOT_CONFIG_PREFIXES):
        return True
    return bool(_secret_of(variable)[1])


def _config_name(variable: str) -> str:
    return variable.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _on_every_interface(uri: str) -> str:
    name, separator, address = uri.partition("://")
    return f"{name}{separator}0.0.0.0:{address.rpartition(':')[2]}"
