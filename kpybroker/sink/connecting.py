"""The client of a sink, and what its batches are like, from its options."""

from difflib import get_close_matches
from typing import Final

from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Client
from kpybroker.client.properties import number, seconds, settings_of
from kpybroker.scan.errors import BadOption
from kpybroker.sink.options import KAFKA, Options
from kpywire.compression import NAMES

CLIENT_ID: Final = "kpybroker-sink"
BATCH_BYTES: Final = 256 * 1024
_OF_JAVA: Final = frozenset(
    (
        "auto.include.jmx.reporter", "client.dns.lookup", "connections.max.idle.ms", "enable.metrics.push",
        "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
        "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "security.providers", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    )
)  # fmt: skip
"""Properties of Java's producer that have no meaning for this client, and do no harm."""


def client_of(options: Options) -> Client:
    """A client that waits for its cluster as long as ``delivery.timeout.ms``. It connects when first used. Raises
    BadOption."""
    try:
        values = _values(options)
        settings = settings_of(values)._replace(
            api_timeout_s=seconds(values, "delivery.timeout.ms"), expects_cluster=True
        )
        return Client(options.servers, seconds(values, "request.timeout.ms"), settings)
    except BadProperty as error:
        raise BadOption(f"{KAFKA}{error}") from None
    except ValueError as error:
        raise BadOption(f"{KAFKA}bootstrap.servers: {error}") from None


def codec_of(options: Options) -> int:
    """The codec of batches. Raises BadOption."""
    return NAMES.index(str(_checked(options)["compression.type"]))


def batch_bytes_of(options: Options) -> int:
    """The size at which a batch is complete. Raises BadOption."""
    return number(_checked(options), "batch.size") if "batch.size" in options.properties else BATCH_BYTES


def _checked(options: Options) -> dict[str, client_configs.Value | None]:
    try:
        return _values(options)
    except BadProperty as error:
        raise BadOption(f"{KAFKA}{error}") from None


def _values(options: Options) -> dict[str, client_configs.Value | None]:
    said = client_configs.of_file(client_configs.PRODUCE, options.properties)
    values = client_configs.with_defaults(client_configs.PRODUCE, said)
    return {**values, "client.id": said.get("client.id", CLIENT_ID)}


def warnings_of(options: Options) -> list[str]:
    """Lines for people on options that have no effect."""
    known = {
        name for each in client_configs.of_command(client_configs.PRODUCE).values() for name in (each.name, *each.also)
    }
    lines = list(options.warnings)
    for key in sorted(options.properties.keys() - known - _OF_JAVA - {"bootstrap.servers", "transaction.timeout.ms"}):
        close = get_close_matches(key, sorted(known), 1)
        hint = f"; did you mean {KAFKA}{close[0]}?" if close else ""
        lines.append(f"the option {KAFKA}{key} has no effect here{hint}")
    return lines
