"""Every value of the answers below ``/api/`` and the key metrics are compared with a node whose contents are known.

A wrong value is found: each is altered once.
"""

import html
import json
import re
from time import time
from typing import Any

import pytest
from compared import PLANTED, Each, Like, Within, altered, wrong
from known_node import Known, known
from stage import flight

from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

__all__ = ["known"]

NODE, TOPIC = 4, 2
TYPES = ("", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
SOURCES = {1: "this topic", 2: "this broker", 3: "the default of all brokers", 4: "the broker's file", 5: "default"}


NOW_MS = Within(time() * 1000 - 60_000, time() * 1000 + 3_600_000)
SINCE_S = Within(0, 86_400)
"""The time since the tests were loaded, when the records got their timestamps: long on a busy machine."""
PLOT_LINE = {"name": Like(r"[a-zA-Z]+( p50| p99)?"), "values": Each((Within(0, 1e6), None))}
PLOT = {
    "title": Like("Bytes|Records in|Requests|Latency|Lateness of the event loop, per second"),
    "unit": Like("B/s|records/s|requests/s|ms"),
    "every_s": 2.0,
    "lines": Each(PLOT_LINE, 1),
}
QUANTILES = {"p50": Within(0, 60_000), "p99": Within(0, 60_000)}


def content(data: bytes | None, form: str, text: str | None = None) -> dict[str, Any]:
    import base64

    return {
        "form": form,
        "text": text if text is not None else "" if data is None else data.decode(),
        "base64": None if data is None else base64.b64encode(data).decode(),
        "bytes": -1 if data is None else len(data),
        "is_cut": False,
        "schema_id": None,
        "note": "",
    }


def record_row(number: int) -> dict[str, Any]:
    made = flight(number)
    assert made.key is not None
    assert made.value is not None
    return {
        "partition": 0,
        "offset": number,
        "timestamp_ms": made.timestamp,
        "timestamp_type": "CreateTime",
        "key": content(made.key, "text"),
        "value": content(made.value, "json", json.dumps(json.loads(made.value), indent=2)),
        "headers": [{"name": "source", "name_is_cut": False, "value": content(b"gate 7", "text")}],
        "headers_left_out": 0,
        "is_transactional": False,
        "control": None,
        "producer_id": -1,
    }


def without_markup(text: str) -> str:
    spaced = re.sub(r"<(br|p|li|ul)\b[^>]*>", " ", text)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", spaced)).split())


def config_rows(known: Known, kind: int, name: str, *, only_set: bool) -> list[dict[str, Any]]:
    """The configs of a resource as a client gets them."""
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    with known.node.client as client:
        (found,) = client.call(request, 4).results
    rows = []
    for each in sorted(found.configs, key=lambda each: (kind == TOPIC and each.config_source != 1, each.name)):
        if only_set and each.config_source == 5:
            continue
        below = [synonym.value for synonym in each.synonyms if synonym.source != 1]
        defaults = [synonym.value for synonym in each.synonyms if synonym.source == 5]
        usual = (below[0] if below else each.value) if kind == TOPIC else defaults[0] if defaults else None
        rows.append(
            {
                "name": each.name,
                "value": each.value,
                "source": SOURCES[each.config_source],
                "default": usual,
                "type": TYPES[each.config_type],
                "documentation": without_markup(each.documentation or ""),
                "is_set": each.config_source != 5 if kind == NODE else each.config_source == 1,
            }
        )
    return rows


DELETION = {
    "segments_now": 0,
    "bytes_now": 0,
    "next_ms": Within(time() * 1000 + 6 * 86_400_000, time() * 1000 + 8 * 86_400_000),
    "line": "the oldest segment, once its last record is older than retention.ms",
}
NO_DELETION = {
    "segments_now": 0,
    "bytes_now": 0,
    "next_ms": None,
    "line": "the oldest segment, once the log is larger than retention.bytes",
}


def partition_row(number: int, end: int, size: int) -> dict[str, Any]:
    return {
        "partition": number,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": [1],
        "in_sync": [1],
        "start_offset": 0,
        "end_offset": end,
        "bytes": size,
        "is_here": True,
        "next_deletion": DELETION if end else NO_DELETION,
        "trouble": None,
    }


def topic_row(known: Known, name: str, partitions: int, records: int) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": known.topic_id(name),
        "is_internal": False,
        "partitions": partitions,
        "replication": 1,
        "without_leader": 0,
        "under_replicated": 0,
        "local_bytes": known.file_bytes(name),
        "local_records": records,
    }


def paged(search: str = "", total: int = 1) -> dict[str, Any]:
    return {"search": search, "page": 1, "pages": 1, "total": total}


def connection_row(known: Known) -> dict[str, Any]:
    host, port = known.stage.connected.sock.getsockname()
    return {
        "id": f"{host}:{port}",
        "listener": "PLAINTEXT",
        "protocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "software": "unknown",
        "software_version": "unknown",
        "client_ids": ["watched"],
        "versions": ["FindCoordinator v3", "JoinGroup v3", "SyncGroup v2"],
        "idle_s": SINCE_S,
        "unread_bytes": 0,
        "state": "idle or served",
    }


def cluster(known: Known) -> Any:
    return {
        "cluster_id": known.node.node.image.cluster_id,
        "node_id": 1,
        "metadata_version": "4.4-IV2",
        "quorum_leader": 1,
        "health": {"state": "good", "line": "5 partitions are all led and in sync; 1 broker is alive"},
        "nodes": [
            {
                "id": 1,
                "roles": ["broker", "controller"],
                "state": "alive",
                "away_s": None,
                "is_away_longer": False,
                "advice": "",
                "addresses": [f"PLAINTEXT://127.0.0.1:{known.port}"],
                "rack": "rack-1",
                "leaders": 5,
                "replicas": 5,
                "leads_quorum": True,
                "is_here": True,
                "console": None,
                "console_note": "",
            }
        ],
        "disks": [
            {
                "node": 1,
                "path": "/data",
                "total_bytes": 1 << 40,
                "usable_bytes": Within((1 << 40) - (1 << 20), 1 << 40),
                "log_bytes": Within(2_000, 100_000),
                "logs": 6,
                "state": "working",
            }
        ],
        "topics": 4,
        "partitions": 5,
        "without_leader": 0,
        "under_replicated": 0,
        "troubles": [],
        "troubles_left_out": 0,
        "moves": [],
        "moves_left_out": 0,
        "throttles": [],
        "may_change": True,
        "plots": Each(PLOT, 4),
    }


def topics(known: Known) -> Any:
    rows = [topic_row(known, "flights", 2, 20), topic_row(known, "paid", 1, 3)]
    return {**paged(total=2), "with_internal": False, "topics": rows, "may_create": True}


def topic(known: Known) -> Any:
    reader = {"name": "readers", "is_group": True, "partitions": 1, "lag": 15, "unknown": 0, "lag_s": SINCE_S}
    return {
        "name": "flights",
        "topic_id": known.topic_id("flights"),
        "is_internal": False,
        "partitions": [partition_row(0, 20, known.file_bytes("flights")), partition_row(1, 0, 0)],
        "page": 1,
        "pages": 1,
        "total_partitions": 2,
        "configs": config_rows(known, TOPIC, "flights", only_set=False),
        "configs_hidden": None,
        "readers": [reader],
        "readers_left_out": 0,
        "may_configure": True,
        "may_read": True,
        "may_write": True,
    }


def partition(known: Known) -> Any:
    size = known.file_bytes("flights")
    segment = {
        "base_offset": 0,
        "next_offset": 20,
        "bytes": size,
        "largest_timestamp_ms": flight(19).timestamp,
        "index_entries": 0,
        "time_index_entries": 0,
        "is_active": True,
        "is_expendable": False,
    }
    return {
        "topic": "flights",
        "partition": 0,
        "path": "/data/flights-0",
        "role": "leader",
        "start_offset": 0,
        "high_watermark": 20,
        "last_stable_offset": 20,
        "end_offset": 20,
        "recovery_point": 0,
        "leader_epoch": 0,
        "bytes": size,
        "deletion": DELETION,
        "segments": [segment],
    }


def segment(known: Known) -> Any:
    size = known.file_bytes("flights")
    batch = {
        "position": 0,
        "base_offset": 0,
        "last_offset": 19,
        "records": 20,
        "bytes": size,
        "codec": "none",
        "first_timestamp_ms": flight(0).timestamp,
        "max_timestamp_ms": flight(19).timestamp,
        "leader_epoch": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "is_transactional": False,
        "is_control": False,
        "crc": known.log_of("flights")[17:21].hex(),
    }
    place = {"topic": "flights", "partition": 0, "base_offset": 0, "bytes": size, "position": 0, "next_position": None}
    return {**place, "batches": [batch], "index": [], "time_index": []}


def records(_: Known) -> Any:
    return {
        "topic": "flights",
        "topics": [],
        "topics_left_out": 0,
        "partitions": 2,
        "partitions_left_out": 0,
        "partition": None,
        "start": "newest",
        "offset": None,
        "time": "",
        "most": 50,
        "form": "auto",
        "committed": False,
        "is_live": False,
        "records": [record_row(number) for number in reversed(range(20))],
        "gaps": [],
        "next_offset": None,
        "elsewhere": [],
        "may_write": True,
        "notes": [],
    }


def groups(_: Known) -> Any:
    joined = {"id": "joined", "type": "classic", "state": "Stable", "members": 1, "node": 1, "lag": None, "unknown": 1}
    readers = {"id": "readers", "type": "classic", "state": "Empty", "members": 0, "node": 1, "lag": 15, "unknown": 0}
    rest = {"readers": [], "readers_left_out": 0, "readers_hidden": False, "unreachable": []}
    return {**paged(total=2), "groups": [joined, readers], **rest}


def group(_: Known) -> Any:
    position = {
        "topic": "flights",
        "partition": 0,
        "committed": 5,
        "commit_ms": NOW_MS,
        "metadata": "",
        "end_offset": 20,
        "stable_offset": 20,
        "lag": 15,
        "lag_s": SINCE_S,
        "member": None,
        "fetched": None,
        "fetched_s": None,
        "start_offset": 0,
    }
    plots = [
        {"title": "Lag in records", "unit": "records", "lines": [{"name": "records", "values": Each(15.0, 1)}]},
        {"title": "Lag in time", "unit": "s", "lines": [{"name": "seconds", "values": Each(SINCE_S, 1)}]},
    ]
    return {
        "id": "readers",
        "type": "offsets only",
        "state": "Empty",
        "protocol": "",
        "generation": None,
        "node": 1,
        "verdict": "It has no member: nobody reads the 15 records that are left.",
        "is_stuck": True,
        "members": [],
        "positions": [position],
        "positions_left_out": 0,
        "shares": [],
        "topology": [],
        "topology_absence": "",
        "topology_left_out": 0,
        "dead_letters": None,
        "lag": 15,
        "unknown": 0,
        "lag_s": SINCE_S,
        "read_per_s": None,
        "written_per_s": None,
        "falls_behind": False,
        "story": [],
        "plots": [{**plot, "every_s": SINCE_S} for plot in plots],
    }


def connections(known: Known) -> Any:
    phases = ("total", "queue", "local", "remote", "waiting", "send")
    times = {"request": Like("[A-Z][A-Za-z]+"), "count": Within(1, 1_000), "errors": Within(0, 1_000)}
    client = {
        "software": "confluent-kafka-python",
        "software_version": Like(r"[\d.]+(-rdkafka-[\d.]+)?"),
        "client_ids": ["rdkafka"],
    }
    versions = Each(Like(r"[A-Z][A-Za-z]+ v\d+"), 1)
    producer = {**connection_row(known), **client, "id": Like(r"127\.0\.0\.1:\d+"), "versions": versions}
    return {
        **paged(),
        "total": Within(2, 10),
        "connections": Each((connection_row(known), producer), 2),
        "times": Each({**times, **dict.fromkeys(phases, QUANTILES)}, 3),
        "loop": Each({"what": Like("[A-Za-z ]+"), "share": Within(0, 1)}, 1),
        "loop_s": SINCE_S,
        "plots": [PLOT],
    }


def connection(known: Known) -> Any:
    return {"connection": connection_row(known), "exchanges": []}


def transactions(_: Known) -> Any:
    row = {
        "transactional_id": "payments",
        "state": "Ongoing",
        "producer_id": 0,
        "producer_epoch": 0,
        "timeout_ms": 60_000,
        "open_s": SINCE_S,
        "partitions": ["paid-0"],
    }
    pin = {
        "topic": "paid",
        "partition": 0,
        "producer_id": 0,
        "transactional_id": "payments",
        "first_offset": 0,
        "end_offset": 3,
        "last_write_ms": NOW_MS,
    }
    return {**paged(), "transactions": [row], "pins": [pin], "pins_left_out": 0, "may_abort": True}


def quorum(known: Known) -> Any:
    end = known.end_of_metadata
    node = {
        "id": 1,
        "role": "leader",
        "end_offset": Within(end, end + 20),
        "lag": 0,
        "last_fetch_ms": NOW_MS,
        "last_caught_up_ms": NOW_MS,
        "behind_s": 0.0,
        "is_here": True,
    }
    features = []
    for name, levels in sorted(SUPPORTED.items()):
        names = {7: "3.3-IV3", 33: "4.4-IV2"} if name == "metadata.version" else {}
        lowest, highest = ({"level": each, "name": names.get(each, str(each))} for each in levels)
        rest = {"upgrade": None, "limit": "", "is_lowered": name != "kraft.version"}
        features.append({"name": name, "now": highest, "supported": [lowest, highest], **rest})
    return {
        "leader": 1,
        "epoch": 1,
        "high_watermark": Within(end, end + 20),
        "local_role": "leader",
        "local_end_offset": Within(end, end + 20),
        "nodes": [node],
        "features": features,
        "may_change": True,
        "hidden": None,
    }


def configs(known: Known) -> Any:
    total = len(config_rows(known, NODE, "1", only_set=False))
    rows = config_rows(known, NODE, "1", only_set=True)
    return {"node_id": 1, "search": "", "is_full": False, "total": total, "configs": rows, "hidden": None}


def security(_: Known) -> Any:
    listener = {"name": "PLAINTEXT", "address": "127.0.0.1:0", "protocol": "PLAINTEXT"}
    rest: dict[str, list[str]] = {"acls": [], "users": [], "hidden": []}
    return {"has_authorizer": False, "you": "User:ANONYMOUS", "listeners": [listener], **rest}


def quotas(_: Known) -> Any:
    quota = {"entity": "client-id (default)", "name": "producer_byte_rate", "value": 5e8}
    used = {
        "quota": "producer_byte_rate",
        "user": "",
        "client_id": "rdkafka",
        "per_second": Within(0, 10_000),
        "throttle_ms": 0.0,
    }
    return {"quotas": [quota], "hidden": None, "used": [used], "throttled": 0}


def search(known: Known) -> Any:
    hits = [number for number in range(20) if b"LX1" in (flight(number).key or b"")]
    size = known.file_bytes("flights")
    return {
        "id": known.stage.values["search"],
        "topic": "flights",
        "text": "LX1",
        "where": "any",
        "state": "done",
        "reason": "",
        "read_bytes": size,
        "total_bytes": size,
        "share": 1.0,
        "records_seen": 20,
        "records": [record_row(number) for number in hits],
        "gaps": [],
        "gaps_left_out": 0,
        "may_go_on": False,
        "elsewhere": [],
        "partitions_left_out": 0,
        "passed_s": SINCE_S,
        "form": "auto",
        "notes": [],
    }


EXPECTED = {
    "/": cluster,
    "/topics": topics,
    "/topics/{topic}": topic,
    "/topics/{topic}/{partition}": partition,
    "/topics/{topic}/{partition}/{segment}": segment,
    "/records": records,
    "/groups": groups,
    "/group": group,
    "/connections": connections,
    "/connections/{connection}": connection,
    "/transactions": transactions,
    "/quorum": quorum,
    "/configs": configs,
    "/security": security,
    "/quotas": quotas,
    "/searches/{search}": search,
}


@pytest.mark.parametrize("page", [page for page in PAGES if page.template], ids=lambda page: page.path)
def test_every_value_of_an_answer_is_true_and_a_wrong_one_is_found(known: Known, page: Any) -> None:
    answer = known.node.get(known.stage.address(page, page.api_path)).json
    expected = EXPECTED[page.path](known)
    assert wrong(answer, expected) == ""
    unseen = [path for path, made in altered(answer) if not wrong(made, expected)]
    assert unseen == []


METRICS = {
    'kafka_consumergroup_lag{consumergroup="readers",topic="flights",partition="0"}': 15,
    'kafka_consumergroup_current_offset{consumergroup="readers",topic="flights",partition="0"}': 5,
    'kafka_consumergroup_members{consumergroup="joined"}': 1,
    'kafka_consumergroup_members{consumergroup="readers"}': 0,
    'kafka_topic_partitions{topic="flights"}': 2,
    'kafka_topic_partition_current_offset{topic="flights",partition="0"}': 20,
    'kafka_topic_partition_oldest_offset{topic="flights",partition="0"}': 0,
    'kafka_topic_partition_leader{topic="flights",partition="0"}': 1,
    'kafka_topic_partition_in_sync_replica{topic="flights",partition="0"}': 1,
    'kafka_topic_partition_under_replicated_partition{topic="flights",partition="0"}': 0,
    "kafka_brokers": 1,
}


def sample_of(page: str, name: str) -> float:
    """The value of a series on the page of metrics; labels may come in any order."""
    wanted = name.partition("{")[0], set(re.findall(r'\w+="[^"]*"', name))
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if (series.partition("{")[0], set(re.findall(r'\w+="[^"]*"', series))) == wanted:
            return float(value)
    raise AssertionError(f"there is no {name}")


def wrong_metrics(page: str) -> list[str]:
    return [name for name, value in METRICS.items() if sample_of(page, name) != value]


def test_key_metrics_are_true_and_a_wrong_one_is_found(known: Known) -> None:
    page = known.node.get("/metrics").text
    assert wrong_metrics(page) == []
    for name in METRICS:
        lines = [
            f"{line.rpartition(' ')[0]} {PLANTED}" if line.startswith(name.partition("{")[0] + "{") else line
            for line in page.splitlines()
        ]
        if "{" not in name:
            lines = [f"{name} {PLANTED}" if line.startswith(f"{name} ") else line for line in page.splitlines()]
        assert name in wrong_metrics("\n".join(lines))
