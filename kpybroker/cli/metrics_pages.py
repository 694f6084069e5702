"""Pages of Prometheus texts beside the Admin API, for ``kpybroker balance --metrics``: the bytes that consumers read,
and the time that producers wait. Names are those of the JMX exporter's usual rules and of kpybroker. Not here: reading
a page (`kpybroker.cli.scrape`)."""

import time
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Final
from urllib.parse import urlsplit

import click

from kpybroker.cli.options import Command
from kpybroker.cli.scrape import MetricsPage, PageRefused, Way, fetch

CONNECT_TIMEOUT_S: Final = 5.0
DEFAULT_PORT: Final = 9404
BYTES_OUT: Final = (
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_bytesoutpersec",
    "kafka_server_brokertopicmetrics_bytesoutpersec_count",
)
PRODUCE_TIME: Final = ("kafka_network_requestmetrics_totaltimems", "kafka_network_requestmetrics_totaltimems_quantile")
WORST_QUANTILE: Final = "0.99"


def pages_option(command: Command) -> Command:
    """``--metrics``, repeatable."""
    return click.option(
        "--metrics",
        "urls",
        multiple=True,
        metavar="URL",
        callback=_addresses,
        help="A broker's page of Prometheus texts, such as http://HOST:9404/metrics: traffic of consumers and latency "
        "of producers are read there. Repeatable.",
    )(command)


def _addresses(_context: click.Context, _option: click.Parameter, urls: Sequence[str]) -> list[tuple[str, int]]:
    found = []
    for url in urls:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port or DEFAULT_PORT
        except ValueError:
            port = 0
        if not parts.hostname or not port or parts.path not in ("", "/", "/metrics"):
            raise click.BadParameter(f"{url!r} is not such as http://HOST:9404/metrics")
        found.append((parts.hostname, port))
    return found


class MetricsPages:
    """The pages of brokers. A page that does not answer is reported once and left out."""

    def __init__(self, addresses: Sequence[tuple[str, int]], way: Way | None = None) -> None:
        self._addresses = list(addresses)
        self._way = way or Way()
        self._first = self._read()

    def _read(self) -> dict[tuple[str, int], MetricsPage]:
        pages = {}
        for address in list(self._addresses):
            try:
                page, why = fetch(*address, CONNECT_TIMEOUT_S, self._way), "nothing like metrics answers"
            except PageRefused as refused:
                page, why = None, str(refused)
            if page is None:
                click.echo(f"No metrics from {address[0]}:{address[1]}: {why}", err=True)
                self._addresses.remove(address)
            else:
                pages[address] = page
        return pages

    def sent(self) -> Mapping[str, float]:
        """The bytes a second that consumers have read from each topic since the first reading."""
        found: dict[str, float] = {}
        now = time.monotonic()
        for address, page in self._read().items():
            before = self._first[address]
            elapsed_s = max(now - before.read_s, 0.001)
            for name in BYTES_OUT:
                earlier = before.by_labels(name, "topic")
                for (topic,), value in page.by_labels(name, "topic").items():
                    if topic and (topic,) in earlier:
                        found[topic] = found.get(topic, 0.0) + max(0.0, value - earlier[topic,]) / elapsed_s
        return found

    def latency_ms(self) -> float | None:
        """The longest time of produce requests on any page, all but one in a hundred; None if no page has it."""
        found = [
            value
            for page in self._read().values()
            for name in PRODUCE_TIME
            for value in page.by_labels(name, quantile=WORST_QUANTILE, request="Produce").values()
            if not isnan(value)
        ]
        return max(found, default=None)
