"""Clients and transports of a scan, from its options."""

from typing import TYPE_CHECKING, Final

from kpybroker.client import client_configs
from kpybroker.client.client import Client
from kpybroker.client.properties import number, seconds, settings_of
from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.options import AUTO, FILES, ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan.borrowing import Borrowed
from kpybroker.pipeline.scan.client_properties import bad_options, without_effect
from kpybroker.pipeline.scan.cluster import ScannedCluster
from kpybroker.pipeline.scan.fetching import FetchTransport, ScanFetching
from kpybroker.pipeline.scan.files_first import FilesFirst
from kpybroker.pipeline.scan.transport import Transport
from kpybroker.pipeline.scan.ways import NO_WAYS, ScanWays

if TYPE_CHECKING:
    from kpybroker.pipeline.scan.old_records import OldRecords

CLIENT_ID: Final = "kpybroker-scan"
API_TIMEOUT_MS: Final = 60_000
"""``default.api.timeout.ms``, as in Java's clients."""
_OF_JAVA: Final = frozenset(
    (
        "allow.auto.create.topics", "auto.include.jmx.reporter", "client.dns.lookup", "connections.max.idle.ms",
        "enable.metrics.push", "exclude.internal.topics", "max.poll.records", "metadata.recovery.strategy",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "security.providers", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    )
)  # fmt: skip
"""Properties of Java's consumer that have no meaning for this client, and do no harm."""


def client_of(options: ScanOptions, *, waits: bool = False) -> Client:
    """A client. It connects when first used. Raises BadOption.

    ``waits``: whether it tries brokers again that it has not reached yet, for ``default.api.timeout.ms``.
    """
    with bad_options():
        values = _values(options)
        settings = settings_of(values)._replace(expects_cluster=waits)
        return Client(options.servers, seconds(values, "request.timeout.ms"), settings)


def _values(options: ScanOptions) -> dict[str, client_configs.Value | None]:
    properties = _properties(options)
    configured = {
        **client_configs.of_file(client_configs.ADMIN, properties),
        **client_configs.of_file(client_configs.CONSUME, properties),
    }
    values = {
        **client_configs.with_defaults(client_configs.ADMIN, {}),
        **client_configs.with_defaults(client_configs.CONSUME, configured),
    }
    return {**values, "client.id": CLIENT_ID, "default.api.timeout.ms": API_TIMEOUT_MS, **_scanning(configured)}


def _scanning(configured: dict[str, client_configs.Value]) -> dict[str, client_configs.Value]:
    """The properties with another default in a scan, where they are set."""
    return {name: configured[name] for name in ("client.id", "default.api.timeout.ms") if name in configured}


def _properties(options: ScanOptions) -> dict[str, str]:
    """The properties that may have an effect: there is no group."""
    blank = {"isolation.level"}  # Java leaves out the blanks around it
    configured = options.properties.items()
    return {name: value.strip() if name in blank else value for name, value in configured if name != "group.id"}


def cluster_of(options: ScanOptions, *, waits: bool = False) -> ScannedCluster:
    """The cluster that the options name. Raises BadOption. ``waits``: see `client_of`."""
    return ScannedCluster(
        client_of(options, waits=waits),
        options.topics,
        committed_only=options.wanted.committed_only,
        attempts=options.attempts,
        pause_s=options.pause_ms / 1000,
    )


def transport_of(options: ScanOptions, ways: ScanWays = NO_WAYS) -> Transport:
    """The transport for a task, for which a plan has found these ways. Raises BadOption."""
    lent, copied = ways

    def fetching() -> Transport:
        return FetchTransport(client_of(options, waits=True), _fetching(options))

    def again(part: OffsetRange) -> Borrowed:
        from kpybroker.pipeline.scan.lent_files import borrowed  # which few tasks need

        with client_of(options, waits=True) as client:
            found = borrowed(options, client, [part], {})
        assert found is not None
        return found

    def without_store() -> Transport:
        if lent is None:
            return fetching()
        return FilesFirst(lent, None, again) if options.transport == FILES else FilesFirst(lent, fetching)

    if copied is None or not copied.partitions:
        return without_store()
    from kpybroker.pipeline.scan.objects import ObjectTransport  # which few tasks need
    from kpybroker.pipeline.tiers.stores import store_of

    def connect() -> Client:
        return client_of(options, waits=True)

    is_auto = options.transport == AUTO
    return ObjectTransport(copied, store_of(options.store), without_store, connect, may_give_up=is_auto)


def old_records_of(options: ScanOptions) -> "OldRecords | None":
    """The reader of records that only the store has; None where the options name no store. Raises BadOption."""
    if not options.reads_store:
        return None
    from kpybroker.pipeline.scan.old_records import OldRecords
    from kpybroker.pipeline.tiers.stores import BadStore, store_of

    try:
        store = store_of(options.store)
    except BadStore as error:
        raise BadOption(str(error)) from None
    return OldRecords(store, lambda: client_of(options, waits=True), committed_only=options.wanted.committed_only)


def _fetching(options: ScanOptions) -> ScanFetching:
    values = client_configs.of_file(client_configs.CONSUME, _properties(options))
    limits = [values[name] for name in ("fetch.max.bytes", "max.partition.fetch.bytes") if name in values]
    plain = ScanFetching()
    return ScanFetching(
        max_bytes=max(min((each for each in limits if isinstance(each, int)), default=plain.max_bytes), 1),
        max_wait_ms=number(values, "fetch.max.wait.ms") if "fetch.max.wait.ms" in values else plain.max_wait_ms,
        patience_s=plain.patience_s if options.poll_timeout_ms is None else options.poll_timeout_ms / 1000,
    )


def warnings_of(options: ScanOptions) -> list[str]:
    """Lines for people on options that have no effect."""
    commands = client_configs.CONSUME, client_configs.ADMIN
    return [*options.warnings, *without_effect(options.properties, commands, _OF_JAVA)]
