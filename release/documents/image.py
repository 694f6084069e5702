"""docs/image.md: the variables and tools of the container image.

The tables come from the code; a test holds the file against it, and another one the options against those of Kafka.
"""

from collections.abc import Iterable
from typing import Final

from kpybroker.cli.kafka_tools import consumer, producer
from kpybroker.cli.kafka_tools.__main__ import CLASSES, CUB, WITH_OPTIONS
from kpybroker.cli.kafka_tools.options import ToolOptions
from kpybroker.config.environment import NOT_CONFIG_PREFIXES, NOT_CONFIGS, OF_SECRETS, SECRETS

NOT_HERE: Final = {
    "--bootstrap-controller": "the client of these tools asks brokers",
    "--delete-config": "kafka-configs alters configs, in Kafka too",
    "--enable-systest-events": "it is for Kafka's own tests",
    "--partition-size-limit-per-response": "topics are described by another request",
    "--validate-regex": "the broker checks the expressions of subscriptions",
}
"""The options of Kafka's tools that are refused, with their reasons; `--delete-config` only by kafka-topics."""
EVERYWHERE: Final = ("--help", "--version", "--bootstrap-server", "--command-config")
_HEAD: Final = """\
# The container image

Written by `make tables`; edit `kpybroker/config/environment.py` and `kpybroker/cli/kafka_tools` instead.

`docker/` builds an image that stands in for apache/kafka and confluentinc/cp-kafka: the same variables, paths, scripts and
tools. [from-apache-kafka.md](from-apache-kafka.md) says what else stays the same.

## Variables

| variable | what it does |
|---|---|
| `KAFKA_...` | a config: `KAFKA_LOG_DIRS` is `log.dirs`. `_` becomes `.`, `__` becomes `_`, `___` becomes `-`. `KAFKA_CFG_...` means the same and counts before it |
"""  # noqa: E501 - lines of a document
_MIDDLE: Final = """\
| `KAFKA_OPTS` | [`-Djava.security.auth.login.config=FILE`](security.md) for logins, `-Djava.security.krb5.conf=FILE` for Kerberos, and [those for a ZooKeeper](zookeeper.md#a-login-at-zookeeper); other options of a JVM have no effect |
| `CLUSTER_ID` | the id with which a new node formats its directories; without it a node that names its quorum has the id of Kafka's image, and any other one makes its own |
| `KPYBROKER_HTTP` | the address of the console, `/metrics`, `/live` and `/ready`, or `off`. Without it `0.0.0.0:9404` |
| `KAFKA_KPYBROKER_CONSOLE_URL` | the address of the console for browsers, where the port is mapped: other nodes link to it |
"""  # noqa: E501 - lines of a document
_BEHIND: Final = """
As in Kafka's images a variable becomes a line of a properties file. So `\\` at the end of a line continues a value, escapes
such as `\\t` and `\\u00e9` mean what they mean there, a backslash is written twice, and further lines of a value are further
configs. This also holds for the passwords in the files above. The variables of files may be for one listener:
`KAFKA_LISTENER_NAME_{listener}_SSL_KEYSTORE_FILENAME`. These files count before `KAFKA_SSL_KEYSTORE_LOCATION` and the
others where a listener `...SSL://` is advertised. A trust store that is not there is an error only with
`KAFKA_SSL_CLIENT_AUTH` `required` or `requested`.

A file `/mnt/shared/config/server.properties` is read before the variables, which count more. Without `KAFKA_LISTENERS` the
broker listens on every interface at the ports of `KAFKA_ADVERTISED_LISTENERS`; without both at 9092, and clients are given
`localhost:9092`. Without `KAFKA_LOG_DIRS` the data are in `/var/lib/kafka/data`. Two configurations that Kafka's image refuses
start here: a listener with TLS without the variables of secrets, if the configs name the files, and one with SASL without
`KAFKA_OPTS`, if `sasl.jaas.config` has the login. The configuration that was made of all this is
`/opt/kafka/config/server.properties`, which only its owner can read.

## The console

The [console](console.md) at port 9404 takes a login. The first start of a container makes the user `admin` with a password and
prints it once; it stays in `/etc/kafka/console.users`. `docker logs CONTAINER | grep console:` shows it again. There is no such
user with `KAFKA_KPYBROKER_HTTP_USERS`, `kpybroker.http.users` in a mounted file, an authorizer, or a `KPYBROKER_HTTP` on
loopback. With an authorizer, `KAFKA_KPYBROKER_HTTP_USERS=scram` lets the users of the cluster log in. The image has the
libraries for TLS and for records with schemas.

## Tools

They are in `/opt/kafka/bin` and on the path, with and without `.sh`. Options, output and exit codes are those of Kafka 4.4;
words of errors are their own. Like Kafka's, the tools wait up to a minute for a cluster that is not there yet
(`default.api.timeout.ms` of `--command-config`). `--bootstrap-server`, `--command-config`, `--help` and
`--version` are options of all that talk to a cluster, and `--broker-list` means `--bootstrap-server`. An option that is not
listed is refused with exit code 1.

| tool | options |
|---|---|
"""  # noqa: E501 - lines of a document
_REFUSED: Final = """
| option of Kafka's tools | why it is refused |
|---|---|
"""
_CONSOLE: Final = """
Of `--property` of the two console tools these are known, and all others are refused. Classes of readers, formatters and
deserializers are written in Java; Kafka's own are known by name: {deserializers}.

| tool | properties |
|---|---|
"""
_OTHERS: Final = """
| line | what it does |
|---|---|
| `kafka-storage format`, `random-uuid` | `kpybroker format`, with the same options |
| `kafka-server-start FILE --override K=V` | `kpybroker start` |
| `kafka-run-class CLASS ...` | the tool of one of these classes: {classes} |
| `zookeeper-server-start` | a stand-in that answers `ruok`, for scripts that start a ZooKeeper beside the broker |

These options are known and change nothing: {without_effect}.

What differs: the console consumer without `--group` reads without a group, where Kafka's makes one up. `--include` means the
topics that are there at the start. `kafka-console-producer` ends with exit code 1 if a record was not delivered, where
Kafka's logs it and ends with 0. Commits of the console consumer name no epoch of a leader. `kafka-console-producer` takes
properties of the producer that [cli.md](cli.md) lists, and refuses others.
"""  # noqa: E501 - lines of a document


def document() -> str:
    """The content of docs/image.md."""
    lines = [f"| `{name}` | {_secret(config)} |" for name, config in OF_SECRETS.items()]
    ignored = [
        *(f"`{name}`" for name in sorted(NOT_CONFIGS - {"KAFKA_OPTS"})),
        *(f"`{name}...`" for name in NOT_CONFIG_PREFIXES),
    ]
    lines.append(f"| {', '.join(ignored)} | nothing: they set up a JVM or its logs, or Kubernetes makes them |")
    tools = {**{name: tool.options() for name, tool in WITH_OPTIONS.items()}}
    tools |= {f"cub {name}": tool.options() for name, tool in CUB.items()}
    rows = [f"| `{name}` | {_listed(options_in(options))} |" for name, options in sorted(tools.items())]
    refused = [f"| `{name}` | {why} |" for name, why in NOT_HERE.items()]
    deserializers = _listed(name for name in consumer.DESERIALIZERS if name)
    properties = [
        f"| `{name}` | {_listed(known)} |"
        for name, known in ((producer.NAME, producer.PROPERTIES), (consumer.NAME, consumer.PROPERTIES))
    ]
    return "".join(
        (
            f"{_HEAD}{_lines(lines)}{_MIDDLE}{_BEHIND}{_lines(rows)}{_REFUSED}{_lines(refused)}",
            f"{_CONSOLE.format(deserializers=deserializers)}{_lines(properties)}",
            _OTHERS.format(
                classes=_listed(sorted(CLASSES)),
                without_effect=", ".join(f"`--{name}` ({why})" for name, why in producer.WITHOUT_EFFECT.items()),
            ),
        )
    )


def options_in(options: ToolOptions) -> list[str]:
    """The names of options, and of words without a name."""
    found = []
    for action in options.actions():
        if set(action.option_strings) & set(EVERYWHERE):
            continue
        found += list(action.option_strings) or [action.dest if action.choices is None else "|".join(action.choices)]
    return found


def _secret(config: str) -> str:
    where = f"of a file in `{SECRETS}`"
    return f"the name {where}: `{config}`" if config.endswith("location") else f"the name {where} that holds `{config}`"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`".replace("|", "\\|") for name in names)


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
