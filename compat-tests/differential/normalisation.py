"""Values that must differ between two brokers, taken out of answers before they are compared: a table with reasons.

An answer becomes a tree of dicts, lists and plain values. What a broker made up itself and was learned from it
(`Learned`) becomes the symbol that stands for it, so that a *wrong* id still shows. Nothing else may be left out here:
what differs by decision is in `known`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from differential.steps import fields_in
from kpywire import api
from kpywire.batch import HEADER_BYTES, batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.record import read_batch
from kpywire.schema import Structure
from kpywire.uuid import to_string

NEAR_MS = 600_000
BACKDATED_MS = 10_000
"""How far the clock of a sequence's clients is behind that of the brokers, so that the two can be distinguished."""


class View(NamedTuple):
    """The origin of an answer, and the facts that its broker reported before."""

    api_key: int
    version: int
    prefix: str
    began_ms: int
    port: int
    symbols: dict[Any, str]
    """For ids that this broker made up: what they stand for."""


class Rule(NamedTuple):
    """Fields of these names become something else; in answers to all APIs unless some are named."""

    name: str
    reason: str
    fields: frozenset[str]
    change: Callable[[Any, View], Any]
    apis: frozenset[int] = frozenset()


def _fields(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _left_out(value: Any, view: View) -> Any:  # noqa: ARG001
    return "<>"


def _symbol(value: Any, view: View) -> Any:
    return view.symbols.get(value, value)


def _sorted(value: Any, view: View) -> Any:  # noqa: ARG001
    return sorted(value)


def _port(value: Any, view: View) -> Any:
    return "<port>" if value == view.port else value


def _clock(value: Any, view: View) -> Any:
    """The broker's clock. Clients of a sequence write as if it had begun `BACKDATED_MS` before."""
    near = isinstance(value, int) and BACKDATED_MS / 2 < value - view.began_ms < NEAR_MS
    return "<now>" if near else value


def _own_topics(value: Any, view: View) -> Any:
    return _own(value, view, ("name", "topic_name", "topic", "resource_name", "group_id"))


def _own_transactions(value: Any, view: View) -> Any:
    return [each for each in value if each.transactional_id.startswith(view.prefix)]


def _own(value: Any, view: View, names: Sequence[str]) -> Any:
    """Without what other sequences left behind."""
    if not value:
        return value
    return [
        each for each in value if not _foreign(next((getattr(each, n) for n in names if hasattr(each, n)), ""), view)
    ]


def _foreign(name: str | None, view: View) -> bool:
    if not name:
        return False
    return (name.startswith("dif-") and not name.startswith(view.prefix)) or name.startswith("__")


def _grouped(value: Any, view: View) -> Any:  # noqa: ARG001
    """Partitions of one topic together."""
    topics: dict[Any, Any] = {}
    for each in value:
        whole = topics.setdefault((each.topic, each.topic_id), type(each)(topic=each.topic, topic_id=each.topic_id))
        whole.partitions = [*whole.partitions, *each.partitions]
    return list(topics.values())


RULES = (
    Rule(
        "ports",
        "two brokers listen on two ports",
        _fields("port"),
        _port,
    ),
    Rule("producer ids", "each broker hands out its own", _fields("producer_id"), _symbol),
    Rule(
        "client metrics",
        "each broker makes up ids of clients, and what numbers a subscription by the order of a hash set",
        _fields("client_instance_id subscription_id"),
        _symbol,
        frozenset({api.GET_TELEMETRY_SUBSCRIPTIONS}),
    ),
    Rule(
        "wanted metrics",
        "Apache Kafka has them in a hash set",
        _fields("requested_metrics"),
        _sorted,
        frozenset({api.GET_TELEMETRY_SUBSCRIPTIONS}),
    ),
    Rule("fetch sessions", "their ids are random", _fields("session_id"), _symbol),
    Rule(
        "groups of partitions",
        "a topic comes once for each run of its partitions, and in sessions their order is a matter of history",
        _fields("responses"),
        _grouped,
        frozenset({api.FETCH}),
    ),
    Rule("cluster id", "each cluster has its own", _fields("cluster_id"), _left_out),
    Rule("log directories", "two paths", _fields("log_dir"), _left_out),
    Rule("disks", "what is free changes while it is asked", _fields("usable_bytes total_bytes"), _left_out),
    Rule(
        "directory ids",
        "each directory has its own",
        _fields("replica_directory_id"),
        _left_out,
    ),
    Rule(
        "the broker's clock",
        "two brokers answer at two moments",
        _fields(
            "log_append_time_ms last_timestamp last_fetch_timestamp last_caught_up_timestamp transaction_start_time_ms"
        ),
        _clock,
    ),
    Rule(
        "when a record was appended",
        "where the topic takes the broker's clock, and of markers; what clients write is compared",
        _fields("timestamp max_timestamp"),
        _clock,
    ),
    Rule(
        "the metadata log",
        "each broker writes other records to it, and its own number of them",
        _fields("log_end_offset high_watermark leader_epoch log_start_offset last_fetch_timestamp"),
        _left_out,
        frozenset({api.DESCRIBE_QUORUM}),
    ),
    Rule(
        "the controller's listener",
        "the oracle has one of its own; kpybroker's node does without",
        _fields("nodes"),
        _left_out,
        frozenset({api.DESCRIBE_QUORUM}),
    ),
    Rule(
        "features in force",
        "the oracle is formatted with all of its features; the epoch counts records of the metadata log",
        _fields("supported_features finalized_features finalized_features_epoch"),
        _left_out,
        frozenset({api.API_VERSIONS}),
    ),
    Rule(
        "what is advertised",
        "compared by test_protocol_versions; Apache Kafka serves more",
        _fields("api_keys"),
        _left_out,
        frozenset({api.API_VERSIONS}),
    ),
    Rule(
        "others' transactions",
        "those of other sequences, and of requests with names at random",
        _fields("transaction_states"),
        _own_transactions,
        frozenset({api.LIST_TRANSACTIONS}),
    ),
    Rule(
        "other sequences",
        "what they left, and internal topics that brokers make when they need them",
        _fields("topics groups config_resources replica_election_results"),
        _own_topics,
        frozenset(
            {
                api.METADATA,
                api.ELECT_LEADERS,
                api.LIST_GROUPS,
                api.DESCRIBE_LOG_DIRS,
                api.DESCRIBE_TOPIC_PARTITIONS,
                api.LIST_CONFIG_RESOURCES,
            }
        ),
    ),
)
"""Every rule that is applied; topic and member ids, which may stand anywhere, and records are below."""

BOUNDS = re.compile(r"within \[-?\d+, -?\d+\]")
"""The bounds of timestamps that a broker takes: they follow its clock."""
CLUSTER_ID = re.compile('the cluster id "[^"]*"')
"""Each cluster has its own."""
VOTERS = re.compile(r"(?<=voters \[ReplicaKey\(id=1, directoryId=)[\w-]{22}")
"""Each directory has its own id."""
REQUEST = re.compile(r"Request Request\(.*\) (?=needs )", re.DOTALL)
"""A request in the text of a refusal, with addresses and numbers of connections."""
UNREACHABLE = re.compile(
    r"New voter ReplicaKey\(.*\) is not ready to receive requests|Aborted add voter operation for since API_VERSIONS .*"
)
"""The two answers about an address where nobody listens: the time since Kafka's last attempt to connect decides."""
MEMBER_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The end of a member id; of one that its member has not heard yet, this is all that can be taken away."""

UNORDERED = "arrays are compared without their order: Apache Kafka takes several from hash maps (KNOWN_DIFFERENCES.md)"


def normalised(answer: Any, view: View) -> Any:
    """The tree of an answer."""
    if isinstance(answer, Structure):
        return {
            each.name: _field(each.name, getattr(answer, each.name), view)
            for each in fields_in(answer)
            if view.version in each.versions
        }
    if isinstance(answer, list):
        return sorted((normalised(each, view) for each in answer), key=repr)
    if isinstance(answer, str):
        return _named(answer, view)
    if isinstance(answer, bytes) and len(answer) == 16:
        return view.symbols.get(answer, to_string(answer))
    return answer


def _field(name: str, value: Any, view: View) -> Any:
    if name == "records":
        return records_tree(value, view)
    for rule in RULES:
        if name in rule.fields and (not rule.apis or view.api_key in rule.apis):
            value = rule.change(value, view)
    return normalised(value, view)


def _named(text: str, view: View) -> str:
    """A text with the ids that it quotes replaced, whether it is one or holds one."""
    text = text.replace(view.prefix, "~")
    for made_up, symbol in view.symbols.items():
        quoted = to_string(made_up) if isinstance(made_up, bytes) else made_up
        if isinstance(quoted, str) and len(quoted) > 8 and quoted in text:
            text = text.replace(quoted, symbol)
    text = BOUNDS.sub("within <bounds>", text)
    text = VOTERS.sub("<>", text)
    text = REQUEST.sub("Request ", text)
    text = UNREACHABLE.sub("<unreachable>", text)
    text = CLUSTER_ID.sub('the cluster id "<>"', text)
    text = re.sub(rf":{view.port}\b", ":<port>", text)
    return MEMBER_ID.sub("<uuid>", text)


def records_tree(records: Any, view: View) -> Any:
    """Batches, header and records; the size of what is compressed is the codec's, of a CRC counts whether it holds."""
    if records is None:
        return None
    data, tree, end = bytes(records), [], 0
    for position, header in batch_headers(data):
        end = position + header.size
        fields = header._asdict()
        fields["producer_id"] = view.symbols.get(header.producer_id, header.producer_id)
        fields["crc"] = check_crc(data, header, position)
        if header.codec:
            fields.pop("batch_length")
        clock = bool(header.timestamp_type) or header.is_control
        for name in ("base_timestamp", "max_timestamp") if clock else ():
            fields[name] = _clock(fields[name], view)
        tree.append({**fields, "records": _records(data, header, position, clock)})
    compressed = any("batch_length" not in each for each in tree)
    return {"batches": tree, "cut_off": "<>" if compressed else len(data) - end}


def _records(data: bytes, header: Any, position: int, clock: bool) -> Any:
    try:
        found = list(read_batch(data, header, position))
    except Malformed:
        return data[position + HEADER_BYTES : position + header.size]
    return [record._replace(timestamp=0)._asdict() if clock else record._asdict() for record in found]
