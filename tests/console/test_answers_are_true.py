"""Every value of the answers below ``/api/`` is compared with a node whose contents are known.

A wrong value is found: each is altered once.
"""

import html
import json
import re
from time import time
from typing import Any

import pytest
from compared import Each, Like, Within, altered, wrong
from expected_groups import NOW_MS, SINCE_S, group, group_reset, groups, paged, time_plots
from known_node import NO_MIRRORS, TIERS_SHOWN, Known, known
from stage import flight

from kpybroker.machines.console.config_words import words_of
from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

__all__ = ["known"]

NODE, TOPIC = 4, 2
TYPES = ("", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
SOURCES = {1: "this topic", 2: "this broker", 3: "the default of all brokers", 4: "the broker's file", 5: "default"}

OF_CLIENTS = (
    ("Bytes", "B/s", ["in", "out"]),
    ("Records in", "records/s", ["in"]),
    ("Requests", "requests/s", ["all"]),
    ("Work on requests", "ms", ["Produce p50", "Produce p99", "Fetch p50", "Fetch p99"]),
    ("Fetch waits for records", "ms", ["p50", "p99"]),
    ("Partitions not well", "partitions", ["under-replicated", "no leader"]),
)
OF_LOOP = (
    ("Event loop, of each second", "ms", ["late", "garbage collector"]),
    ("Longest delay of the event loop", "ms", ["longest"]),
)
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


NO_FILTER = {"text": "", "kind": "text", "where": "any", "ignore_case": False}
NO_FILTER |= dict.fromkeys(("key", "header", "json", "since", "until"), "")


def record_row(number: int) -> dict[str, Any]:
    made = flight(number)
    assert made.key is not None
    assert made.value is not None
    return {
        "partition": 0,
        "offset": number,
        "timestamp_ms": made.timestamp,
        "timestamp_type": "CreateTime",
        "segment": 0,
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
    lowest = 1 if kind == TOPIC else 4
    for each in sorted(found.configs, key=lambda each: (each.config_source > lowest, each.name)):
        if only_set and each.config_source == 5:
            continue
        lower = [synonym for synonym in each.synonyms if synonym.source in ((2, 3, 4, 5) if kind == TOPIC else (5,))]
        at_rest = each.value if kind == TOPIC and each.config_source != 1 else None
        usual, usual_name = (lower[0].value, lower[0].name) if lower else (at_rest, each.name)
        rows.append(
            {
                "name": each.name,
                "value": each.value,
                "words": words_of(each.name, TYPES[each.config_type], each.value),
                "source": SOURCES[each.config_source],
                "default": usual,
                "default_words": words_of(usual_name, TYPES[each.config_type], usual),
                "type": TYPES[each.config_type],
                "documentation": without_markup(each.documentation or ""),
                "is_dynamic": kind == TOPIC or not each.read_only,
                "is_set": each.config_source != 5 if kind == NODE else each.config_source == 1,
            }
        )
    return rows


RATES = dict.fromkeys(("records_in_per_s", "bytes_in_per_s", "bytes_out_per_s"), Within(0.0, 1e6))
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
    "line": "nothing: there are no records",
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
        "local_partitions": partitions,
        "local_bytes": known.file_bytes(name),
        "local_records": records,
        **RATES,
        "lag": 15 if name == "flights" else None,
        "reader": "readers" if name == "flights" else None,
        "reader_is_group": name == "flights",
    }


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
        "history": time_plots(*OF_CLIENTS),
    }


def topics(known: Known) -> Any:
    rows = [topic_row(known, "flights", 2, 20), topic_row(known, "paid", 1, 3)]
    return {
        **paged(total=2),
        "with_internal": False,
        "topics": rows,
        "node_id": 1,
        "other_nodes": 0,
        "may_create": True,
    }


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
        "replication": 1,
        "known_partitions": 2,
        "records": 20,
        "bytes": known.file_bytes("flights"),
        **RATES,
        "cleanup_policy": "delete",
        "retention": "7 days",
        "next_deletion": None,
        "silent_nodes": [],
        "configs": config_rows(known, TOPIC, "flights", only_set=False),
        "configs_hidden": None,
        "readers": [reader],
        "readers_left_out": 0,
        "may_configure": True,
        "may_read": True,
        "may_write": True,
        "may_add_partitions": True,
        "may_delete_records": True,
        "may_delete": True,
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
        "unused": [],
        "most": 50,
        "form": "auto",
        "committed": False,
        "is_live": False,
        "filter": NO_FILTER,
        "conditions": [],
        "looked_at": 20,
        "stopped": "",
        "records": [record_row(number) for number in reversed(range(20))],
        "gaps": [],
        "next_offset": None,
        "elsewhere": [],
        "may_write": True,
        "notes": [],
        "now_ms": NOW_MS,
    }


def produce(_: Known) -> Any:
    return {
        "topic": "flights",
        "partitions": 2,
        "partition": 0,
        "key": "LX3",
        "key_as": "text",
        "value": (flight(3).value or b"").decode(),
        "value_as": "text",
        "is_null": False,
        "headers": "source=gate 7",
        "headers_as": "text",
        "source": 3,
        "notes": [],
        "may_write": True,
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
        "history": time_plots(*OF_LOOP),
    }


def connection(known: Known) -> Any:
    return {"connection": connection_row(known), "exchanges": []}


def find(known: Known) -> Any:
    def kind(name: str, see: str, *hits: tuple[str, str, Any], total: Any = None) -> Any:
        listed = [{"name": name, "see": address, "about": about} for name, address, about in hits]
        return {"kind": name, "total": len(hits) if total is None else total, "hits": listed, "see": see}

    configs = [each["name"] for each in config_rows(known, NODE, "1", only_set=False) if "a" in each["name"]]
    closest = sorted(configs, key=lambda name: (not name.startswith("a"), name))[:20]
    topics = (
        ("__transaction_state", "/topics/__transaction_state", "1 partition"),
        ("paid", "/topics/paid", "1 partition"),
    )
    clients = [(name, f"/connections?q={name}", Like(r"\d connections?")) for name in ("rdkafka", "watched")]
    return {
        "search": "a",
        "kinds": [
            kind("Topics", "/topics?q=a&internal=1", *topics),
            kind("Groups", "/groups?q=a", ("readers", "/group?id=readers", "classic, Empty")),
            kind("Transactional ids", "/transactions?q=a", ("payments", "/transactions?q=payments", "Ongoing")),
            kind("Clients", "/connections?q=a", *clients),
            kind(
                "Configs",
                "/configs?q=a&all=1",
                *((name, f"/configs?q={name}&all=1", "") for name in closest),
                total=len(configs),
            ),
        ],
        "missing": [],
    }


def transactions(_: Known) -> Any:
    row = {
        "transactional_id": "payments",
        "state": "Ongoing",
        "producer_id": 0,
        "producer_epoch": 0,
        "timeout_ms": 60_000,
        "open_s": SINCE_S,
        "partitions": ["paid-0"],
        "may_abort": True,
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
    return {**paged(), "transactions": [row], "pins": [pin], "pins_left_out": 0}


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
    full = config_rows(known, NODE, "1", only_set=False)
    return {
        "node_id": 1,
        "search": "",
        "is_full": False,
        "total": len(full),
        "configs": config_rows(known, NODE, "1", only_set=True),
        "dynamic": sorted(each["name"] for each in full if each["is_dynamic"] and each["type"] != "password"),
        "hidden": None,
        "may_configure": True,
    }


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
        "partition": None,
        "filter": {**NO_FILTER, "text": "LX1"},
        "conditions": ["“LX1” anywhere"],
        "state": "done",
        "reason": "",
        "read_bytes": size,
        "total_bytes": size,
        "share": 1.0,
        "records_seen": 20,
        "found_before": 0,
        "records": [record_row(number) for number in hits],
        "gaps": [],
        "gaps_left_out": 0,
        "may_go_on": False,
        "elsewhere": [],
        "partitions_left_out": 0,
        "passed_s": SINCE_S,
        "form": "auto",
        "may_write": True,
        "notes": [],
        "now_ms": NOW_MS,
    }


def history(_: Known) -> Any:
    return {"node_id": 1, "history": time_plots(*OF_CLIENTS, *OF_LOOP)}


def balance(_: Known) -> Any:
    standing = {"mode": "off", "line": "", "advice": None, "left": 0, "left_bytes": 0, "rate": 0}
    return {
        "mode": "off",
        "controller": 1,
        "is_here": True,
        "elsewhere": None,
        "standing": standing,
        "may_change": True,
    }


EXPECTED = {
    "/balance": balance,
    "/": cluster,
    "/history": history,
    "/topics": topics,
    "/topics/{topic}": topic,
    "/topics/{topic}/{partition}": partition,
    "/topics/{topic}/{partition}/{segment}": segment,
    "/records": records,
    "/records/produce": produce,
    "/groups": groups,
    "/group": group,
    "/group/reset": group_reset,
    "/connections": connections,
    "/connections/{connection}": connection,
    "/transactions": transactions,
    "/quorum": quorum,
    "/configs": configs,
    "/security": security,
    "/quotas": quotas,
    "/tiers": lambda _: TIERS_SHOWN,
    "/mirrors": lambda _: NO_MIRRORS,
    "/find": find,
    "/searches/{search}": search,
}


@pytest.mark.parametrize("page", [page for page in PAGES if page.template], ids=lambda page: page.path)
def test_every_value_of_an_answer_is_true_and_a_wrong_one_is_found(known: Known, page: Any) -> None:
    answer = known.node.get(known.stage.address(page, page.api_path)).json
    expected = EXPECTED[page.path](known)
    assert wrong(answer, expected) == ""
    unseen = [path for path, made in altered(answer) if not wrong(made, expected)]
    assert unseen == []
