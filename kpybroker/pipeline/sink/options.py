"""The options of the sink: names, meanings and errors are those of Spark's Kafka sink. Pure.

Names are compared without regard to case.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.given_options import flag, lowered, number, properties_of, unknown_options

PREFIX: Final = "kpybroker-sink-"
MOST_INT: Final = 0x7FFF_FFFF
_REFUSED: Final = {
    "key.serializer": "Keys are serialized as bytes; cast the column.",
    "value.serializer": "Values are serialized as bytes; cast the column.",
    "transactional.id": "Instead set the sink option 'transactionalId'.",
    "partitioner.class": "Instead add a column 'partition'.",
    "interceptor.classes": "There is no Java client here.",
}
KNOWN: Final = (
    "topic", "includeHeaders", "exactlyOnce", "transactionalId", "transactionalIdPrefix", "txnAppId", "txnVersion",
    "checkpointLocation", "path", "queryName",
)  # fmt: skip


class Mark(NamedTuple):
    """The name of a unit of work that is written once: a query and the number of its micro-batch."""

    application: str
    version: int


class SinkOptions(NamedTuple):
    """The options of a sink."""

    properties: Mapping[str, str]
    """The properties of the client: the options that began with ``kafka.``."""
    topic: str | None
    is_exactly_once: bool
    transactional_id: str | None
    """The transactional id, which is the name of the group with the marks, too; None where none is set or follows."""
    timeout_ms: int | None
    mark: Mark | None
    """The mark of a batch that is written once, from txnAppId and txnVersion."""
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Options({self.topic}, {self.transactional_id}, {self.mark})"

    @property
    def servers(self) -> str:
        return self.properties["bootstrap.servers"]


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a sink. Raises BadOption."""
    configured = lowered(given)
    properties = properties_of(configured, _REFUSED, "producer")
    is_exactly_once = flag(configured, "exactlyOnce", default=True)
    if is_exactly_once and properties.get("acks", "all") not in ("all", "-1"):
        raise BadOption("exactlyOnce needs kafka.acks=all; set exactlyOnce=false for another one")
    if is_exactly_once and properties.get("enable.idempotence", "true").lower() != "true":
        raise BadOption("exactlyOnce needs kafka.enable.idempotence=true; set exactlyOnce=false for another one")
    mark = _mark(configured)
    return SinkOptions(
        properties=properties,
        topic=configured.get("topic") or None,
        is_exactly_once=is_exactly_once,
        transactional_id=_transactional_id(configured, mark),
        timeout_ms=number(configured, "kafka.transaction.timeout.ms", least=0, most=MOST_INT),
        mark=mark,
        warnings=unknown_options(configured, KNOWN),
    )


def for_stream(options: SinkOptions) -> SinkOptions:
    """The options of a streaming query. Raises BadOption."""
    if options.mark is not None:
        raise BadOption(
            "txnAppId and txnVersion are for batch writes; a streaming query counts its micro-batches itself"
        )
    if options.is_exactly_once and options.transactional_id is None:
        raise BadOption(
            "the transactional id must be the same after a restart: set the option checkpointLocation on the query, "
            "not only in Spark's configuration, or the option transactionalId"
        )
    return options


def _transactional_id(configured: Mapping[str, str], mark: Mark | None) -> str | None:
    """The id that is set, or one that follows from what stays the same when the job is started again."""
    chosen = configured.get("transactionalid")
    if chosen:
        return chosen
    stays = mark.application if mark is not None else configured.get("checkpointlocation", "").rstrip("/")
    if not stays:
        return None
    return configured.get("transactionalidprefix", PREFIX) + sha256(stays.encode()).hexdigest()[:20]


def _mark(configured: Mapping[str, str]) -> Mark | None:
    application, version = configured.get("txnappid"), number(configured, "txnVersion", least=0, most=MOST_INT)
    if (application is None) != (version is None):
        raise BadOption("txnAppId and txnVersion belong together: set both or none")
    return None if application is None or version is None else Mark(application, version)
