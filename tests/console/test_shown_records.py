"""Records in the console: hostile contents, places to begin, searches that end, records that are produced."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import pytest
from console_node import ConsoleNode, Reply, console_node, node_on_disk

from kpybroker.machines.console import record_tasks
from kpybroker.machines.console.matching import Needle, RecordFilter, matcher
from kpybroker.machines.console.record_tasks import (
    FoundRecord,
    PartitionFiles,
    RecordTask,
    SearchEnded,
    SearchProgress,
    Unreadable,
    work,
)
from kpybroker.monitoring.console import searches
from kpystorage.memory_disk import MemoryDisk
from kpywire.compression import GZIP
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.waiting import eventually

START_MS = int(time()) * 1000 - 1_000_000
"""So late that no retention takes them."""


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true", message_max_bytes="9000000") as made:
        yield made


def record(value: bytes | None, n: int = 0, key: bytes | None = None, headers: tuple[Any, ...] = ()) -> Record:
    return Record(timestamp=START_MS + n * 1000, key=key, value=value, headers=headers)


HOSTILE = {
    "a script": b"<script>alert(1)</script><img src=x onerror=alert(2)>",
    "a broken tag": b"</pre></dd><a href=javascript:alert(1)>",
    "a template": b"{{ 7*7 }}{% raw %}",
    "control characters": b"\x1b[2J\x07bell\x00",
    "a change of direction": "abc\u202edef\u2066".encode(),
    "invalid UTF-8": b"\xff\xfe\xc3(",
    "a surrogate": b"\xed\xa0\x80",
    "nested JSON": b"[" * 50_000,
    "JSON with a script": b'{"a": "</script><script>alert(1)</script>"}',
}


@pytest.mark.parametrize("pattern", [b"\\pL" * 101, b"((a{1000}){1000}){1000}", b"(", b"a\\1"])
def test_a_pattern_that_is_none_or_too_large_is_refused_with_the_reason(pattern: bytes) -> None:
    with pytest.raises(ValueError, match=r"pattern too large|missing \)|invalid escape|repetition"):
        matcher(Needle(pattern, "any", is_pattern=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_contents_are_shown_as_what_they_are(node: ConsoleNode, name: str) -> None:
    data = HOSTILE[name]
    topic = f"hostile-{list(HOSTILE).index(name)}"
    node.create(topic)
    node.produce(topic, [record(data, key=data, headers=((data.decode("latin-1")[:100], data),))])
    for form in ("auto", "text", "json", "hex"):
        page = node.get("/records", topic=topic, form=form)
        assert page.status == 200
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "<a href=javascript" not in page.text
        assert "49%" not in page.text
        assert [each for each in page.text if not each.isprintable() and each not in "\n\t\r"] == []
        (found,) = node.get("/api/records", topic=topic, form=form).json["records"]
        assert found["value"]["bytes"] == len(data)


def test_megabytes_are_cut_on_the_page_and_whole_in_the_download(node: ConsoleNode) -> None:
    node.create("large")
    value = b"x" * 5_000_000
    node.produce("large", [record(value)])
    page = node.get("/records", topic="large")
    assert len(page.text) < 200_000
    (found,) = node.get("/api/records", topic="large").json["records"]
    assert (found["value"]["bytes"], found["value"]["is_cut"]) == (len(value), True)
    assert len(found["value"]["text"]) == record_tasks.MOST_SHOWN_BYTES
    raw = node.get("/api/records/raw", topic="large", partition=0, offset=0)
    assert raw.text.encode() == value


@pytest.fixture(scope="module")
def many(node: ConsoleNode) -> str:
    node.create("many", 2)
    for partition in (0, 1):
        for start in range(0, 100, 10):
            node.produce("many", [record(b"p%d n%d" % (partition, n), n) for n in range(start, start + 10)], partition)
    return "many"


def offsets(reply: Reply) -> list[int]:
    assert reply.status == 200, reply.text
    return [each["offset"] for each in reply.json["records"]]


def test_records_are_browsed_from_the_end_the_start_an_offset_or_a_time(node: ConsoleNode, many: str) -> None:
    def of_one(**query: object) -> list[int]:
        return offsets(node.get("/api/records", topic=many, partition=0, most=3, **query))

    assert of_one() == [99, 98, 97]
    assert of_one(start="oldest") == [0, 1, 2]
    assert of_one(offset=55) == [55, 56, 57]
    assert of_one(start="time", time=START_MS + 41_500) == [42, 43, 44]
    assert of_one(start="time", time=datetime.fromtimestamp((START_MS + 41_500) / 1000, UTC).isoformat()) == [
        42,
        43,
        44,
    ]
    assert of_one(start="time", time="2099-01-01") == []
    assert of_one(offset=10**15) == []
    newest = node.get("/api/records", topic=many, most=4).json["records"]
    assert {(each["partition"], each["offset"]) for each in newest} == {(0, 99), (1, 99), (0, 98), (1, 98)}
    assert node.get("/api/records", topic=many, partition=0, most=3, offset=55).json["next_offset"] == 58


def test_own_topics_are_offered_before_those_of_kafka(node: ConsoleNode, many: str) -> None:
    node.create("zzz")
    node.commit("readers", many, 1)
    topics = node.get("/api/records").json["topics"]
    assert topics[:-1] == sorted(topics[:-1])
    assert topics[-2:] == ["zzz", "__consumer_offsets"]
    assert '<option value="zzz">' in node.get("/records").text


def test_a_value_that_is_not_used_is_named(node: ConsoleNode, many: str) -> None:
    page = node.get("/api/records", topic=many, start="newest", offset=5, time="2026-01-01").json
    assert page["unused"] == [
        "offset 5 is not used: records begin with the newest",
        "time 2026-01-01 is not used: records begin with the newest",
    ]
    shown = node.get("/records", topic=many, start="time", time="2026-01-01", offset=5).text
    assert "offset 5 is not used: records begin at the time." in shown
    assert node.get("/api/records", topic=many, offset=5).json["unused"] == []


def searched(node: ConsoleNode, **query: object) -> Any:
    reply = node.post("/searches", **query)
    assert reply.status == 200, reply.text
    address = f"/api{reply.json['see']}"
    eventually(lambda: node.get(address).json["state"] != "running", "the search ends")
    return node.get(address).json


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"text": "n42"}, 2),
        ({"text": "n42", "partition": 1}, 1),
        ({"text": "N42"}, 0),
        ({"text": "P1 N42", "ignore_case": True}, 1),
        ({"text": "n[45]2$", "kind": "regex"}, 4),
        ({"text": "6e3432", "kind": "hex"}, 2),
        ({"text": "n42", "where": "key"}, 0),
        ({"text": "n42", "since": str(START_MS + 90_000)}, 0),
    ],
)
def test_a_search_finds_what_it_is_asked_for(node: ConsoleNode, many: str, query: dict[str, Any], found: int) -> None:
    result = searched(node, topic=many, **query)
    assert (result["state"], result["share"]) == ("done", 1.0)
    assert len(result["records"]) == found


@pytest.mark.parametrize(
    "query",
    [
        {"text": ""},
        {"text": "x" * 1001},
        {"text": "(", "kind": "regex"},
        {"text": "xyz", "kind": "hex"},
        {"text": "x", "kind": "sql"},
        {"text": "x", "where": "moon"},
        {"text": "x", "partition": 9},
        {"text": "x", "since": "soon"},
    ],
)
def test_a_search_that_cannot_be_is_refused_in_a_line(node: ConsoleNode, many: str, query: dict[str, Any]) -> None:
    reply = node.post("/searches", topic=many, **query)
    assert reply.status in (400, 404), reply.text
    assert reply.json["error"]


def test_a_search_that_matches_everything_ends_when_enough_was_found(node: ConsoleNode) -> None:
    node.create("crowded")
    node.produce("crowded", [record(b"same", n) for n in range(1000)])
    result = searched(node, topic="crowded", text="same")
    assert (len(result["records"]), result["reason"], result["records_seen"]) == (200, "200 records were found", 200)
    assert result["read_bytes"] > 0
    offsets_found = [each["offset"] for each in result["records"]]
    while result["may_go_on"]:
        see = node.post(f"/searches/{result['id']}/more").json["see"]
        eventually(lambda see=see: node.get(f"/api{see}").json["state"] == "done", "the search ends")  # type: ignore[misc]
        result = node.get(f"/api{see}").json
        offsets_found += [each["offset"] for each in result["records"]]
    assert offsets_found == list(range(1000)), "searching on finds each record once"
    assert node.post(f"/searches/{result['id']}/more").status == 400


def test_a_search_counts_what_it_read_of_a_small_topic(node: ConsoleNode) -> None:
    node.create("small", 2)
    for partition in (0, 1):
        node.produce("small", [record(b"v%d" % n, n) for n in range(9)], partition)
    for text, hits in (("v3", 2), ("none", 0)):
        result = searched(node, topic="small", text=text)
        assert (result["state"], len(result["records"]), result["records_seen"]) == ("done", hits, 18)
        assert 0 < result["read_bytes"] <= result["total_bytes"]
        assert result["share"] == 1.0


def test_all_headers_are_shown_while_they_fit(node: ConsoleNode) -> None:
    node.create("many-headers")
    headers = tuple((f"h{n}", b"v") for n in range(300))
    node.produce("many-headers", [Record(value=b"v", timestamp=1, headers=headers)])
    (row,) = node.get("/api/records", topic="many-headers").json["records"]
    assert [each["name"] for each in row["headers"]] == [name for name, _ in headers]
    assert row["headers_left_out"] == 0


def test_headers_that_are_left_out_or_cut_are_counted_and_downloaded_whole(node: ConsoleNode) -> None:
    node.create("headed")
    headers = (
        ("n" * 2000, b"v" * 3000),
        ("bytes", b"\xff"),
        ("none", None),
        *((f"h{n}", b"v" * 900) for n in range(58)),
    )
    node.produce("headed", [Record(value=b"v", timestamp=1, headers=headers)])
    (row,) = node.get("/api/records", topic="headed").json["records"]
    shown, left_out = len(row["headers"]), row["headers_left_out"]
    assert (shown + left_out, left_out > 10, shown > 10) == (61, True, True)
    long, short = row["headers"][:2]
    assert (long["name_is_cut"], long["value"]["is_cut"], long["value"]["bytes"]) == (True, True, 3000)
    assert (short["name_is_cut"], short["value"]["is_cut"]) == (False, False)
    page = node.get("/records", topic="headed").text
    for words in (
        f"{left_out} more headers",
        "61 headers",
        "only the beginning of its name",
        "2.9 KiB, only its beginning",
    ):
        assert words in page
    whole = json.loads(node.get("/records/raw", topic="headed", partition=0, offset=0, part="headers").text)
    assert whole[:3] == [
        {"name": "n" * 2000, "text": "v" * 3000},
        {"name": "bytes", "base64": "/w=="},
        {"name": "none", "text": None},
    ]
    assert len(whole) == 61


def test_a_search_is_cancelled_and_only_its_owner_sees_it(node: ConsoleNode, many: str) -> None:
    see = node.post("/searches", topic=many, text="nothing like it").json["see"]
    assert node.post(f"{see}/cancel").status == 200
    assert node.get(f"/api{see}").json["state"] in ("cancelled", "done")


def test_searches_and_reads_of_files_run_in_another_process(tmp_path: Path) -> None:
    with node_on_disk(tmp_path) as on_disk:
        on_disk.create("t")
        on_disk.produce("t", [record(b"v%d" % n, n) for n in range(50)])
        assert offsets(on_disk.get("/api/records", topic="t", most=2)) == [49, 48]
        assert [each["offset"] for each in searched(on_disk, topic="t", text="v33")["records"]] == [33]
        children = children_named(searches.MODULE)
        assert children, "the process waits for more"
    eventually(lambda: not children & children_named(searches.MODULE), "it ends with the node")


def children_named(module: str) -> set[int]:
    """The processes of this one that run a module."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and module in (status.parent / "cmdline").read_text():
                found.add(int(status.parent.name))
    return found


def test_batches_are_searched_before_they_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    disk.make_directory("/d")
    batches = [
        build_batch([record(b"needle" if n == 7 else b"hay", n)], base_offset=n, codec=n % 2 * GZIP) for n in range(10)
    ]
    disk.write("/d/00000000000000000000.log", b"".join(batches), synchronize=False)
    taken: list[int] = []
    read = record_tasks.read_batch
    monkeypatch.setattr(record_tasks, "read_batch", lambda *words: taken.append(words[1].base_offset) or read(*words))
    place = PartitionFiles(0, "/d", 0, 10, 0, 10)
    answers = list(
        work(disk, RecordTask((place,), 200, filter=RecordFilter((Needle(b"needle", "any"),)), is_search=True))
    )
    assert [each.offset for each in answers if isinstance(each, FoundRecord)] == [7]
    assert taken == [7]
    assert isinstance(answers[-1], SearchEnded)


def test_a_damaged_batch_is_named_and_the_rest_is_shown() -> None:
    disk = MemoryDisk()
    disk.make_directory("/d")
    good, bad = (bytearray(build_batch([record(b"v")], base_offset=n)) for n in (0, 1))
    bad[-1] ^= 1
    disk.write("/d/00000000000000000000.log", bytes(good + bad), synchronize=False)
    answers = list(work(disk, RecordTask((PartitionFiles(0, "/d", 0, 2, 0, 2),), 50)))
    assert [each.offset for each in answers if isinstance(each, FoundRecord)] == [0]
    (gap,) = [each for each in answers if isinstance(each, Unreadable)]
    assert "damaged" in gap.reason


def test_progress_is_shown_while_a_log_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tasks, "PROGRESS_BYTES", 100)
    disk = MemoryDisk()
    disk.make_directory("/d")
    batches = [build_batch([record(b"v" * 50)], base_offset=n) for n in range(20)]
    disk.write("/d/00000000000000000000.log", b"".join(batches), synchronize=False)
    wanted = RecordFilter((Needle(b"none", "any"),))
    place = PartitionFiles(0, "/d", 0, 20, 0, 20)
    answers = list(work(disk, RecordTask((place,), 50, filter=wanted, is_search=True)))
    progress_shown = [each.read_bytes for each in answers if isinstance(each, SearchProgress)]
    assert len(progress_shown) > 5
    assert progress_shown == sorted(progress_shown)


@pytest.mark.parametrize("where", ["any", "key", "value", "header"])
def test_a_needle_is_found_only_where_it_is_searched(where: str) -> None:
    matches = matcher(Needle(b"n", where))
    texts = {"key": Record(key=b"n"), "value": Record(value=b"n"), "header": Record(headers=(("a", b"n"),))}
    assert [matches(each) for each in texts.values()] == [where in ("any", name) for name in texts]


# Producing


def test_a_record_is_produced_with_its_key_headers_and_nulls(
    node: ConsoleNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.create("made", 3)
    with caplog.at_level("INFO", "kpybroker.console"):
        see = node.post("/topics/made/records", key="k", value="<b>é", headers="a=1\nb=", partition=2).json["see"]
    assert "produced offset 0 of made-2" in caplog.text
    assert "<b>" not in caplog.text
    (found,) = node.get(f"/api{see}").json["records"]
    assert (found["partition"], found["key"]["text"], found["value"]["text"]) == (2, "k", "<b>é")
    assert [(each["name"], each["value"]["text"]) for each in found["headers"]] == [("a", "1"), ("b", "")]
    node.post("/topics/made/records", partition=1)
    (empty,) = node.get("/api/records", topic="made", partition=1).json["records"]
    assert (empty["key"]["form"], empty["value"]["form"]) == ("null", "null")
    assert node.post("/topics/made/records", value="v", partition=9).status == 404
    assert node.post("/topics/none/records", value="v").status == 404
    assert node.post("/topics/made/records", value="v", headers="nothing").status == 400


def test_kafkas_refusal_of_a_record_is_passed_on(node: ConsoleNode) -> None:
    node.create("compacted")
    assert node.post("/topics/compacted/configs", name="cleanup.policy", value="compact").status == 200
    reply = node.post("/topics/compacted/records", value="no key")
    assert (reply.status, "INVALID_RECORD" in reply.json["error"]) == (400, True)


def test_markers_of_transactions_are_shown_as_markers() -> None:
    disk = MemoryDisk()
    disk.make_directory("/d")
    marker = build_batch(
        [Record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")], transactional=True, control=True, producer_id=3
    )
    disk.write("/d/00000000000000000000.log", marker, synchronize=False)
    found = next(work(disk, RecordTask((PartitionFiles(0, "/d", 0, 1, 0, 1),), 50)))
    assert isinstance(found, FoundRecord)
    assert found.control == "commit"


def test_a_body_of_json_that_is_no_object_is_refused(node: ConsoleNode) -> None:
    for body in ("[1]", "nothing", "[" * 100_000, json.dumps("x"), '{"text": "\\ud800"}', '{"a": NaN'):
        reply = node.request("POST", "/api/searches", {"Content-Type": "application/json"}, body)
        assert reply.status == 400


def test_produced_batches_of_others_are_read_at_every_codec(node: ConsoleNode) -> None:
    node.create("coded")
    for codec in range(5):
        data = PartitionProduceData(index=0, records=build_batch([record(b"c%d" % codec)], codec=codec))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="coded", partition_data=[data])]
        )
        with node.client as client:
            assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0
    shown = node.get("/api/records", topic="coded", start="oldest", partition=0).json["records"]
    assert [each["value"]["text"] for each in shown] == [f"c{codec}" for codec in range(5)]
