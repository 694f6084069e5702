"""The common parts of Kafka's tools: the parser of options, the connection to a cluster, and refusals."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from kpybroker.cli.command_config import with_login_file
from kpybroker.client import client_configs, properties
from kpybroker.client.client import Client
from kpybroker.client.client_configs import Value
from kpybroker.machines.errors import KafkaError

KAFKA_RELEASE: Final = "4.4.0"
"""The release whose tools these stand in for."""
API_TIMEOUT: Final = "default.api.timeout.ms"
API_TIMEOUT_MS: Final = 60_000
"""Kafka's default for its tools."""
Found = argparse.Namespace


class ToolRefusal(Exception):
    """A tool cannot do what it was asked for: one line for stderr, and exit code 1."""


class ToolOptions(argparse.ArgumentParser):
    """The options of a tool. Names are not abbreviated, and mistakes end with exit code 1, as for Kafka's tools."""

    def __init__(self, tool: str, about: str) -> None:
        super().__init__(tool, description=about, allow_abbrev=False, add_help=False)
        self.add_argument("--help", action=_Help, nargs=0)
        self.add_argument("--version", action="version", version=KAFKA_RELEASE)

    def error(self, message: str) -> NoReturn:
        """Refuse the words of a command line."""
        text = re.sub(r"unrecognized arguments: (\S+).*", r"\1 is not a recognized option", message)
        self.exit(1, f"{self.prog}: {text}\n")

    def actions(self) -> list[argparse.Action]:
        """The options in their order."""
        return list(self._actions)

    def flags(self, *names: str) -> None:
        """Options without a value."""
        for name in names:
            self.add_argument(f"--{name}", action="store_true")

    def texts(self, *names: str) -> None:
        """Options with a value, each at most once."""
        for name in names:
            self.add_argument(f"--{name}", action=_Once)

    def numbers(self, *names: str) -> None:
        """Options with a whole number."""
        for name in names:
            self.add_argument(f"--{name}", action=_Once, type=int)

    def lists(self, *names: str) -> None:
        """Options that may be repeated."""
        for name in names:
            self.add_argument(f"--{name}", action="append", default=[])

    def of_cluster(self) -> None:
        """The options that name a cluster, and the properties of a client in a file."""
        self.add_argument("--bootstrap-server", "--broker-list", dest="bootstrap_server", action=_Once, required=True)
        self.add_argument("--command-config", action=_Once)

    def one_of(self, found: Found, *names: str) -> str:
        """The one action among these that was given."""
        given = [name for name in names if is_given(found, name)]
        if len(given) != 1:
            self.error(f"Command must include exactly one action: {', '.join(f'--{name}' for name in names)}")
        return given[0]

    def only_with(self, found: Found, action: str, allowed: Iterable[str], every: Iterable[str]) -> None:
        """Refuse the options of other actions."""
        for name in every:
            if is_given(found, name) and name not in allowed:
                self.error(f"option {name} cannot be used with option {action}")

    def require(self, found: Found, *names: str) -> None:
        """Refuse a command line without these options."""
        for name in names:
            if not is_given(found, name):
                self.error(f"the required argument {name} is missing")


class Tool:
    """A tool: its options, and the function that runs it with what a command line says."""

    def __init__(self, options: Callable[[], ToolOptions], run: Callable[[ToolOptions, Found], None]) -> None:
        self.options = options
        self.run = run

    def __call__(self, words: Sequence[str]) -> None:
        """Run the tool. Raises Refusal, and the errors of the client."""
        options = self.options()
        self.run(options, options.parse_args(words))


class _Help(argparse.Action):
    """``--help``: as for Kafka's tools the text is an error output, and the exit code is 1."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(1, parser.format_help())


class _Once(argparse.Action):
    """An option whose second value is a mistake and not the one that counts."""

    def __call__(self, parser: argparse.ArgumentParser, found: Found, value: Any, option: str | None = None) -> None:
        if getattr(found, self.dest, None) is not None:
            parser.error(f"found multiple arguments for option {option}, but only one is asked for")
        setattr(found, self.dest, value)


def value_of(found: Found, name: str) -> Any:
    """The value of an option by its name."""
    return getattr(found, name.replace("-", "_"))


def is_given(found: Found, name: str) -> bool:
    """Whether an option was given; 0 is a value."""
    value = value_of(found, name)
    return value is not None and value is not False and value != []


def client_values(command: str, path: str | None, pairs: Sequence[str] = ()) -> "Mapping[str, Value | None]":
    """The properties of a client, from a file and from ``KEY=VALUE`` of a command line. Raises BadProperty, Refusal."""
    configured = {**client_configs.of_file(command, file_of(path)), **client_configs.parse(command, pairs)}
    return with_login_file(client_configs.with_defaults(command, configured))


def file_of(path: str | None) -> dict[str, str]:
    """The properties of a file; none without one. Raises Refusal."""
    if path is None:
        return {}
    from pathlib import Path

    from kpybroker.config.properties import read_properties
    from kpybroker.machines.config_def import ConfigError

    try:
        return {name: each.value for name, each in read_properties(Path(path)).items()}
    except ConfigError as error:
        raise ToolRefusal(str(error)) from None


@contextmanager
def cluster_of(found: Found, timeout_ms: int | None = None) -> Iterator[Client]:
    """A client of the cluster that the options name, once a broker answers: as with Kafka's tools, scripts wait for a
    cluster that only begins by listing its topics. Raises Unreachable if none does in time."""
    configured = file_of(found.command_config)
    values = client_values(client_configs.ADMIN, found.command_config)
    timeout_s = properties.seconds(values, "request.timeout.ms")
    if timeout_ms is None:
        timeout_ms = properties.number(values, API_TIMEOUT) if API_TIMEOUT in configured else API_TIMEOUT_MS
    settings = properties.settings_of(values)._replace(api_timeout_s=timeout_ms / 1000, expects_cluster=True)
    try:
        client = Client(found.bootstrap_server, min(timeout_s, timeout_ms / 1000), settings)
    except ValueError as error:
        raise ToolRefusal(str(error)) from None
    with client:
        client.retrying(client.nodes)
        yield client


def pattern_of(text: str) -> Callable[[str], bool]:
    """Whether a name is one that a pattern of Kafka's tools means: a regular expression, or several after commas."""
    try:
        pattern = re.compile(text.strip().replace(",", "|").strip("\"'"))
    except re.error as error:
        raise ToolRefusal(f"{text} is not a regular expression: {error}") from None
    return lambda name: pattern.fullmatch(name) is not None


def is_internal(name: str) -> bool:
    """Whether a topic is one of Kafka's own."""
    return name in ("__consumer_offsets", "__transaction_state", "__share_group_state")


def text_of(error: Exception) -> str:
    """The text of an error, without its name."""
    return str(error.args[0]) if isinstance(error, KafkaError) else str(error)
