"""``kpybroker start``: a node from a server.properties, overrides of it, or nothing at all."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from kpybroker.cli import DEFAULT_SERVER, NodeEnded, loading
from kpybroker.cli.exposed_files import exposed, secrets_in
from kpybroker.cli.log_lines import JsonFormatter, LineFormatter
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.environment import from_environment
from kpybroker.config.login_file import login_file_of, name_kerberos_file
from kpybroker.config.own_configs import HTTP_FIRST_PORT, JSON_LOG, LOG_FORMAT, TEXT_LOG
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import parse_address
from kpystorage.names import META_PROPERTIES

if TYPE_CHECKING:
    from kpybroker.cli.secure_setup import Laid
    from kpybroker.node.node import Node

HTTP_LISTENER = "kpybroker.http.listener"
DEFAULT_PORT = 9092
DEFAULT_DATA = "./data"
EVERY_INTERFACE = ("", "0.0.0.0", "[::]", "*")


@click.command(name="start")
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a config; this counts before the file."
)
@click.option(
    "--environment", is_flag=True, help="Read KAFKA_... variables, which count before the file, as Kafka's images do."
)
@click.option(
    "--container", is_flag=True, help="Once ready, also print the lines that scripts for Kafka's images wait for."
)
@click.option(
    "--brokers", type=click.IntRange(1), metavar="N", help="Start a cluster of N brokers, each in its own process."
)
@click.option(
    "--data",
    "--data-dir",
    metavar="DIR",
    help="The directory of the data (log.dirs). [default: ./data, or ./cluster for a cluster]",
)
@click.option("--listen", metavar="HOST:PORT", help="The address for clients (listeners, PLAINTEXT).")
@click.option(
    "--port",
    type=int,
    help="The port for clients on 127.0.0.1. In a cluster it is the first broker's; the others get the next ones.",
)
@click.option(
    "--http", metavar="HOST:PORT", help="The address of the console, /metrics, /live and /ready; 'off' for none."
)
@click.option(
    "--log-level",
    default="INFO",
    show_default=True,
    help="The least level of log lines: DEBUG, INFO, WARNING or ERROR.",
)
@click.option(
    "--log-format",
    type=click.Choice([TEXT_LOG, JSON_LOG]),
    help="The form of log lines: text, or one JSON object a line (kpybroker.log.format). [default: text]",
)
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, logins by SCRAM-SHA-512 and an authorizer for one node: certificates, an administrator with a password "
    "and files for clients are made in the data directory at the first start, and used at later ones.",
)
@click.option("--member", is_flag=True, hidden=True, help="A node of a cluster on this machine; ends with its input.")
def command(
    properties: Path | None,
    overrides: tuple[str, ...],
    environment: bool,
    container: bool,
    brokers: int | None,
    data: str | None,
    listen: str | None,
    port: int | None,
    http: str | None,
    log_level: str,
    log_format: str | None,
    secure: bool,
    member: bool,
) -> None:
    """Start a broker with Kafka's configuration keys.

    Without PROPERTIES it is a single node on 127.0.0.1:9092, its data in ./data. Ctrl-C, SIGTERM or SIGHUP stops it.
    """
    handler = _log(log_level)
    if secure and (properties is not None or brokers is not None):
        raise click.UsageError("--secure lays out one node by itself: leave out PROPERTIES and --brokers.")
    settings = _settings(overrides, data, listen, port, http, environment=environment, of_cluster=brokers is not None)
    if log_format is not None:
        settings[LOG_FORMAT] = log_format
    laid = _secure(settings, data, listen, port) if secure else None
    if brokers is not None:
        if settings.get(LOG_FORMAT) == JSON_LOG:
            handler.setFormatter(JsonFormatter())
        sys.exit(_run_cluster(brokers, properties, settings, data, listen, port, log_level))
    name_kerberos_file(os.environ)
    try:
        config = BrokerConfig.load(
            properties,
            settings if laid is None else laid.settings,
            login_file=login_file_of(os.environ.get("KAFKA_OPTS", "")),
        )
    except (ConfigError, OSError) as error:
        if settings.get(LOG_FORMAT) == JSON_LOG:
            handler.setFormatter(JsonFormatter())
            logging.getLogger("kpybroker").error("%s", error)
        else:
            click.echo(f"kpybroker: {error}", err=True)
        sys.exit(1)
    if config[LOG_FORMAT] == JSON_LOG:
        handler.setFormatter(JsonFormatter(config.node_id))
    for warning in (*config.warnings, *_exposed(properties, config)):
        logging.getLogger("kpybroker.config").warning("%s", warning)
    with loading():
        from kpybroker.node.node import run

        gc.freeze()  # modules stay, and the collector need not walk them
    if member:
        _end_with_input()
    is_new = not container and not any(Path(each, META_PROPERTIES).exists() for each in config.log_dirs)
    announce = partial(_announce, container=container, is_new=is_new, laid=laid)
    raise NodeEnded(run(config, _announce_member if member else announce))


def _exposed(properties: Path | None, config: BrokerConfig) -> list[str]:
    """Warnings about files with secrets of this node that other users may read."""
    if properties is None:
        return []
    files = exposed({**secrets_in(str(properties), config.originals), **_in_login_file(config)})
    return [
        f"{path} can be read by other users of this machine, and holds {secret}; chmod 600 it" for path, secret in files
    ]


def _in_login_file(config: BrokerConfig) -> dict[str, str]:
    file = config.login_file
    return {file.path: "passwords of logins"} if file.path else {}


def _log(level_name: str) -> logging.Handler:
    level = logging.getLevelNamesMapping().get(level_name.upper())
    if level is None:
        raise click.BadParameter(f"{level_name} is none of DEBUG, INFO, WARNING, ERROR", param_hint="--log-level")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    return handler


def _settings(
    overrides: tuple[str, ...],
    data: str | None,
    listen: str | None,
    port: int | None,
    http: str | None,
    *,
    environment: bool,
    of_cluster: bool,
) -> dict[str, str]:
    """The configs that options name; a cluster's places are not among them."""
    settings = _of_environment() if environment else {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{override}' is not KEY=VALUE", param_hint="--override")
        settings[key.strip()] = value.strip()
    if listen is not None and port is not None:
        raise click.UsageError("Give one of --listen and --port.")
    if data is not None and not of_cluster:
        settings["log.dirs"] = data
    if not of_cluster and (listen is not None or port is not None):
        settings["listeners"] = _listener(listen if listen is not None else f"127.0.0.1:{port}")
    if http is not None:
        if of_cluster and http != "off":
            raise click.UsageError("With --brokers, --http can only be off: each node takes a free port.")
        settings[HTTP_LISTENER] = "" if http == "off" else http
    return settings


def _of_environment() -> dict[str, str]:
    try:
        return from_environment(os.environ)
    except ConfigError as error:
        click.echo(f"kpybroker: {error}", err=True)
        sys.exit(1)


def _run_cluster(
    count: int,
    properties: Path | None,
    settings: dict[str, str],
    data: str | None,
    listen: str | None,
    port: int | None,
    log_level: str,
) -> int:
    from kpybroker.cli.start_cluster import DEFAULT_DIRECTORY, RunningCluster, again_by, lay_out

    host, first_port = (
        _host_and_port(listen) if listen is not None else ("127.0.0.1", DEFAULT_PORT if port is None else port)
    )
    directory = Path(data or DEFAULT_DIRECTORY)
    nodes = lay_out(directory, host, first_port, count, properties, settings)
    shown = "localhost" if host in EVERY_INTERFACE else host
    in_json = settings.get(LOG_FORMAT) == JSON_LOG
    addresses = [f"{shown}:{node.clients.port}" for node in nodes]

    def ready(consoles: Mapping[int, str]) -> None:
        serve = "1 broker serves" if count == 1 else f"{count} brokers serve"
        lines = [f"kpybroker: {serve} {','.join(addresses)}, data in {directory}"]
        lines += [f"  console of node {node}: {address}" for node, address in sorted(consoles.items())]
        again = again_by(_program(), nodes[-1].properties)
        lines.append(f"  a node that has ended starts again, here node {nodes[-1].id}: {again}")
        click.echo("\n".join([*lines, "", *_paste_next(_program(), addresses[0])]))

    return RunningCluster(nodes, ("--log-level", log_level), ready, _program(), in_json=in_json).run()


def _secure(settings: dict[str, str], data: str | None, listen: str | None, port: int | None) -> "Laid":
    """The node of ``--secure``, laid out now or at an earlier start. Exits with one line if that is not possible."""
    from kpybroker.cli.secure_setup import SetupRefused, lay_out
    from kpystorage.disk_errors import in_words

    host, number = (
        _host_and_port(listen) if listen is not None else ("127.0.0.1", DEFAULT_PORT if port is None else port)
    )
    if listen is not None or port is not None:
        del settings["listeners"]  # it is PLAINTEXT
    try:
        return lay_out(Path(data or settings.get("log.dirs", DEFAULT_DATA)), host, number, settings)
    except (ConfigError, SetupRefused, OSError) as error:
        click.echo(f"kpybroker: {in_words(error) if isinstance(error, OSError) else error}", err=True)
        sys.exit(1)


def _end_with_input() -> None:
    """Stop cleanly when the other end of the standard input has been closed."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, name="input", daemon=True).start()


def _listener(address: str) -> str:
    """The listener of ``--listen``. Every interface is an empty host, since 0.0.0.0 cannot be advertised to clients."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise click.BadParameter(f"{address} is not HOST:PORT", param_hint="--listen")
    return f"PLAINTEXT://{'' if host in EVERY_INTERFACE else host}:{port}"


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdecimal():
        raise click.BadParameter(f"{address} is not HOST:PORT", param_hint="--listen")
    return "" if host in EVERY_INTERFACE else host.removeprefix("[").removesuffix("]"), int(port)


def _announce_member(node: "Node") -> None:
    if node.http_port is not None:
        click.echo(f"console: {_console(node.config, node.http_port)}")
    click.echo(_started(node))


def _started(node: "Node") -> str:
    if node.config.is_in_zookeeper_mode:
        return f"[KafkaServer id={node.config.node_id}] started"
    return f"[KafkaRaftServer nodeId={node.config.node_id}] Kafka Server started"


def _announce(node: "Node", *, container: bool, is_new: bool = False, laid: "Laid | None" = None) -> None:
    """Announce that clients are served, in the words that people and scripts wait for, and what to paste next. A node
    that is new also says which commands help at first."""
    config = node.config
    lines = [f"[KafkaServer id={config.node_id}] started"] if container else []
    listener = (config.broker_listeners or config.controller_listeners)[0]
    host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "localhost"
    address = f"{host}:{node.ports[listener.name]}"
    serves = address if config.is_broker else f"brokers and controllers at {address}"
    lines += [_started(node), f"kpybroker serves {serves}, data in {', '.join(config.log_dirs)}"]
    if node.http_port is not None:
        moved = HTTP_LISTENER not in config.originals and node.http_port != config[HTTP_FIRST_PORT]
        instead = f", since {config[HTTP_FIRST_PORT]} is taken" if moved else ""
        lines.append(f"metrics on port {node.http_port}{instead}: /metrics, /live, /ready")
        lines.append(f"console: {_console(config, node.http_port)}")
    if laid is not None:
        from kpybroker.cli.secure_files import console_login, how_to_connect

        if node.http_port is not None:
            lines.append(console_login(laid.directory, laid.password if laid.is_new else None))
        server = laid.write_client_files(host, node.ports[listener.name])
        lines += ["", *how_to_connect(_program(), laid.directory, server)]
    elif config.is_broker:
        lines += ["", *_paste_next(_program(), address)]
    if is_new:
        lines += [
            f"First time here? {_program()} demo plays a year of flights, {_program()} doctor says what is wrong."
        ]
    click.echo("\n".join(lines))


def _console(config: BrokerConfig, port: int) -> str:
    """The address of the console for a browser on this machine."""
    scheme = "https" if config["kpybroker.http.ssl.keystore.location"] else "http"
    address = parse_address(config.originals.get(HTTP_LISTENER, ""))
    host = "127.0.0.1" if address is None or address[0] in ("", "0.0.0.0", "::") else address[0]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _program() -> str:
    """The command for this program in another terminal: its name where that works, else the path it was started by."""
    places = (os.path.join(directory, "kpybroker") for directory in os.get_exec_path())
    return "kpybroker" if any(os.access(place, os.X_OK) for place in places) else sys.argv[0]


def _paste_next(program: str, address: str) -> list[str]:
    where = "" if address == DEFAULT_SERVER else f" --bootstrap-server {address}"
    source = f'spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{address}")'
    return [
        "In another terminal:",
        f"  {program} topics create hello --partitions 3{where}",
        f"  echo world | {program} produce hello{where}",
        f"  {program} consume hello -c 1{where}",
        "In Spark:",
        f'  {source}.option("subscribe", "hello").load()',
    ]
