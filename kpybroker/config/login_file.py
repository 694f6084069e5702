"""The files that ``KAFKA_OPTS`` names for logins: Java's login configuration file, and that of Kerberos."""

from collections.abc import MutableMapping
from typing import Final

from kpybroker.machines.sasl.jaas import BrokenJaas
from kpybroker.machines.sasl.jaas_file import FILE_OPTION, NO_LOGIN_FILE, LoginFile, java_option, parse_file, path_in

KERBEROS_OPTION: Final = "-Djava.security.krb5.conf="


def name_kerberos_file(environment: MutableMapping[str, str]) -> None:
    """Let MIT Kerberos read the file that ``KAFKA_OPTS`` names, unless the environment names one in its own way."""
    path = java_option(environment.get("KAFKA_OPTS", ""), KERBEROS_OPTION)
    if path:
        environment.setdefault("KRB5_CONFIG", path)


def login_file_of(kafka_opts: str) -> LoginFile:
    """The login file that the options of a JVM name."""
    path = path_in(kafka_opts)
    if not path:
        return NO_LOGIN_FILE
    try:
        with open(path, encoding="utf-8") as file:
            return LoginFile(path, parse_file(file.read(), kafka_opts))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, ValueError) and not isinstance(error, BrokenJaas):
            why = "it is not UTF-8"
        return LoginFile(path, {}, f"{FILE_OPTION}{path} in KAFKA_OPTS cannot be used: {why}")
