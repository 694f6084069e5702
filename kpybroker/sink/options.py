"""The options of the sink: names, meanings and errors are those of Spark's Kafka sink. Pure.

Names are compared without regard to case.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from kpybroker.scan.errors import BadOption

KAFKA: Final = "kafka."
PREFIX: Final = "kpybroker-sink-"
_REFUSED: Final = {
    "key.serializer": "Keys are serialized as bytes; cast the column.",
    "value.serializer": "Values are serialized as bytes; cast the column.",
    "transactional.id": "Instead set the sink option 'transactionalId'.",
    "partitioner.class": "Instead add a column 'partition'.",
    "interceptor.classes": "There is no Java client here.",
}
_FLAGS: Final = {"true": True, "false": False}
_KNOWN: Final = frozenset(
    (
        "topic", "includeheaders", "exactlyonce", "transactionalid", "transactionalidprefix", "txnappid", "txnversion",
        "checkpointlocation", "path", "queryname",
    )
)  # fmt: skip


class Mark(NamedTuple):
    """The name of a unit of work that is written once: a query and the number of its micro-batch."""

    application: str
    version: int


class Options(NamedTuple):
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


def sink_options(given: Mapping[str, str]) -> Options:
    """The options of a sink. Raises BadOption."""
    said = {key.lower(): str(value) for key, value in given.items()}
    properties = {key.removeprefix(KAFKA): value for key, value in said.items() if key.startswith(KAFKA)}
    for key, why in _REFUSED.items():
        if key in properties:
            raise BadOption(f"Kafka option '{key}' is not supported. {why}")
    if not properties.get("bootstrap.servers"):
        raise BadOption("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    is_exactly_once = _flag(said, "exactlyOnce", default=True)
    if is_exactly_once and properties.get("acks", "all") not in ("all", "-1"):
        raise BadOption("exactlyOnce needs kafka.acks=all; set exactlyOnce=false for another one")
    if is_exactly_once and properties.get("enable.idempotence", "true").lower() != "true":
        raise BadOption("exactlyOnce needs kafka.enable.idempotence=true; set exactlyOnce=false for another one")
    mark = _mark(said)
    unknown = sorted(key for key in said if key not in _KNOWN and not key.startswith(KAFKA))
    return Options(
        properties=properties,
        topic=said.get("topic") or None,
        is_exactly_once=is_exactly_once,
        transactional_id=_transactional_id(said, mark),
        timeout_ms=_number(said, "kafka.transaction.timeout.ms"),
        mark=mark,
        warnings=tuple(f"the option {key} is not known and has no effect" for key in unknown),
    )


def for_stream(options: Options) -> Options:
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


def _transactional_id(said: Mapping[str, str], mark: Mark | None) -> str | None:
    """The id that is set, or one that follows from what stays the same when the job is started again."""
    chosen = said.get("transactionalid")
    if chosen:
        return chosen
    stays = mark.application if mark is not None else said.get("checkpointlocation", "").rstrip("/")
    if not stays:
        return None
    return said.get("transactionalidprefix", PREFIX) + sha256(stays.encode()).hexdigest()[:20]


def _mark(said: Mapping[str, str]) -> Mark | None:
    application, version = said.get("txnappid"), _number(said, "txnVersion")
    if (application is None) != (version is None):
        raise BadOption("txnAppId and txnVersion belong together: set both or none")
    return None if application is None or version is None else Mark(application, version)


def _flag(said: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = said.get(name.lower())
    if text is None:
        return default
    if text.lower() not in _FLAGS:
        raise BadOption(f"{name} is true or false, not {text!r}")
    return _FLAGS[text.lower()]


def _number(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) > 0x7FFF_FFFF:
        raise BadOption(f"{name} is a whole number from 0 on, not {text!r}")
    return int(text)
