"""The client of a sink, and what its batches are like, from its options."""

from typing import Final

from kpybroker.client import client_configs
from kpybroker.client.client import Client
from kpybroker.client.properties import number, seconds, settings_of
from kpybroker.pipeline.scan.client_properties import bad_options, without_effect
from kpybroker.pipeline.sink.options import SinkOptions
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


def client_of(options: SinkOptions) -> Client:
    """A client that waits for its cluster as long as ``delivery.timeout.ms``. It connects when first used. Raises
    BadOption."""
    with bad_options():
        values = _values(options)
        settings = settings_of(values)._replace(
            api_timeout_s=seconds(values, "delivery.timeout.ms"), expects_cluster=True
        )
        return Client(options.servers, seconds(values, "request.timeout.ms"), settings)


def codec_of(options: SinkOptions) -> int:
    """The codec of batches. Raises BadOption."""
    return NAMES.index(str(_checked(options)["compression.type"]))


def batch_bytes_of(options: SinkOptions) -> int:
    """The size at which a batch is complete. Raises BadOption."""
    return number(_checked(options), "batch.size") if "batch.size" in options.properties else BATCH_BYTES


def _checked(options: SinkOptions) -> dict[str, client_configs.Value | None]:
    with bad_options():
        return _values(options)


def _values(options: SinkOptions) -> dict[str, client_configs.Value | None]:
    configured = client_configs.of_file(client_configs.PRODUCE, options.properties)
    values = client_configs.with_defaults(client_configs.PRODUCE, configured)
    return {**values, "client.id": configured.get("client.id", CLIENT_ID)}


def warnings_of(options: SinkOptions) -> list[str]:
    """Lines for people on options that have no effect."""
    harmless = _OF_JAVA | {"transaction.timeout.ms"}
    return [*options.warnings, *without_effect(options.properties, [client_configs.PRODUCE], harmless)]
