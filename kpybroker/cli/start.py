"""``kpybroker start``: a node from a server.properties, overrides of it, or nothing at all."""

import logging
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kpybroker.cli import DEFAULT_SERVER
from kpybroker.cli.log_lines import LineFormatter
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import ConfigError
from kpybroker.config.environment import from_environment

if TYPE_CHECKING:
    from kpybroker.node import Node

HTTP_LISTENER = "kpybroker.http.listener"
USUAL_HTTP_PORT = 9404


@click.command(name="start")
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a config, over the file.")
@click.option("--environment", is_flag=True, help="Read KAFKA_... variables over the file, as Kafka's images do.")
@click.option("--container", is_flag=True, help="Also say, once ready, what scripts for Kafka's images wait for.")
@click.option("--data", metavar="DIR", help="Where to keep the data (log.dirs).")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve clients (listeners, PLAINTEXT).")
@click.option("--http", metavar="HOST:PORT", help="Where to serve /metrics, /live and /ready; 'off' for nowhere.")
@click.option("--log-level", default="INFO", show_default=True, help="DEBUG, INFO, WARNING or ERROR.")
def command(
    properties: Path | None,
    overrides: tuple[str, ...],
    environment: bool,
    container: bool,
    data: str | None,
    listen: str | None,
    http: str | None,
    log_level: str,
) -> None:
    """Start a broker with Kafka's configuration keys.

    Without PROPERTIES it is a single node on 127.0.0.1:9092 with its data in ./data. Stop it with Ctrl-C or SIGTERM.
    """
    level = logging.getLevelNamesMapping().get(log_level.upper())
    if level is None:
        raise click.BadParameter(f"{log_level} is none of DEBUG, INFO, WARNING, ERROR", param_hint="--log-level")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    settings = from_environment(os.environ) if environment else {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{override}' is not KEY=VALUE", param_hint="--override")
        settings[key.strip()] = value.strip()
    if data is not None:
        settings["log.dirs"] = data
    if listen is not None:
        settings["listeners"] = _listener(listen)
    if http is not None:
        settings[HTTP_LISTENER] = "" if http == "off" else http
    try:
        config = BrokerConfig.load(properties, settings)
    except (ConfigError, OSError) as error:
        click.echo(f"kpybroker: {error}", err=True)
        sys.exit(1)
    for warning in config.warnings:
        logging.getLogger("kpybroker.config").warning("%s", warning)
    from kpybroker.node import run

    sys.exit(run(config, partial(_announce, container)))


def _listener(address: str) -> str:
    """The listener of ``--listen``. Every interface is an empty host, since no client can be told 0.0.0.0."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise click.BadParameter(f"{address} is not HOST:PORT", param_hint="--listen")
    return f"PLAINTEXT://{'' if host in ('0.0.0.0', '[::]', '*') else host}:{port}"


def _announce(container: bool, node: "Node") -> None:
    """Say that clients are served, in the words people and scripts wait for, and what to paste next."""
    config = node.config
    listener = config.broker_listeners[0]
    host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "localhost"
    address = f"{host}:{node.ports[listener.name]}"
    lines = [f"[KafkaServer id={config.node_id}] started"] if container else []
    lines += [
        f"[KafkaRaftServer nodeId={config.node_id}] Kafka Server started",
        f"kpybroker serves {address}, data in {', '.join(config.log_dirs)}",
    ]
    if node.http_port is not None:
        moved = HTTP_LISTENER not in config.originals and node.http_port != USUAL_HTTP_PORT
        instead = f", since {USUAL_HTTP_PORT} is taken" if moved else ""
        lines.append(f"metrics on port {node.http_port}{instead}: /metrics, /live, /ready")
    click.echo("\n".join([*lines, "", *_paste_next(_program(), address)]))


def _program() -> str:
    """How to call us in another terminal: by name where that works, else by the path we were started by."""
    return "kpybroker" if shutil.which("kpybroker") else sys.argv[0]


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
