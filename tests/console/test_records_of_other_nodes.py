"""Records of partitions that another node leads: shown, filtered, downloaded, and produced again, from one console."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oracle.process import die_with_parent, free_port
from support.waiting import eventually

pytestmark = pytest.mark.slow
PARTITIONS = 4
EACH = 60


class Cluster:
    """Two brokers, asked at the console of the first."""

    def __init__(self, server: str, console: str) -> None:
        self.server = server
        self.console = console

    def ask(self, path: str, body: dict[str, Any] | None = None, **query: object) -> tuple[int, str]:
        address = f"{self.console}{path}?{urlencode(query)}" if query else self.console + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"} if data else {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def records(self, **query: object) -> Any:
        status, text = self.ask("/api/records", topic="spread", **query)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    port = free_port()
    command = [sys.executable, "-m", "kpybroker", "start", "--brokers", "2", "--port", str(port)]
    command += ["--data", str(tmp_path_factory.mktemp("cluster")), "--override", "kpybroker.console.write.enable=true"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent
    )
    assert process.stdout is not None
    try:
        console = None
        while console is None:
            line = process.stdout.readline()
            assert line, "it ended"
            console = re.search(r"console of node 1: (http://\S+?)/?$", line)
        made = Cluster(f"127.0.0.1:{port}", console[1])
        fill(made.server)
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def fill(server: str) -> None:
    """Records in all partitions, which both brokers lead."""
    admin = AdminClient({"bootstrap.servers": server})
    (made,) = admin.create_topics([NewTopic("spread", PARTITIONS, 1)]).values()
    made.result(60)

    def leaders() -> set[int]:
        return {each.leader for each in admin.list_topics("spread", 60).topics["spread"].partitions.values()}

    eventually(lambda: leaders() == {1, 2}, "both brokers lead partitions of the topic")
    producer = Producer({"bootstrap.servers": server})
    for number in range(EACH):
        for partition in range(PARTITIONS):
            value = json.dumps({"partition": partition, "number": number})
            producer.produce("spread", value, b"\x00\xff", partition, headers=[("n", str(number))])
    assert producer.flush(60) == 0


def test_a_page_has_the_records_of_all_partitions(cluster: Cluster) -> None:
    page = cluster.records(most=500)
    places = {(each["partition"], each["offset"]) for each in page["records"]}
    assert places == {(partition, offset) for partition in range(PARTITIONS) for offset in range(EACH)}
    assert (page["elsewhere"], page["gaps"]) == ([], [])
    for each in page["records"]:
        led_here = each["segment"] is not None
        assert led_here == (each["partition"] in led_by(cluster, 1)), "only files of this node have a segment"


def led_by(cluster: Cluster, node: int) -> list[int]:
    found = AdminClient({"bootstrap.servers": cluster.server}).list_topics("spread", 60).topics["spread"].partitions
    return [number for number, each in found.items() if each.leader == node]


def offsets(page: Any) -> list[int]:
    return [each["offset"] for each in page["records"]]


@pytest.mark.parametrize("node", [1, 2])
def test_a_partition_is_read_from_each_beginning_and_paged(cluster: Cluster, node: int) -> None:
    partition = led_by(cluster, node)[0]
    assert offsets(cluster.records(partition=partition, most=3)) == [59, 58, 57]
    first = cluster.records(partition=partition, most=3, start="oldest")
    assert (offsets(first), first["next_offset"]) == ([0, 1, 2], 3)
    last = cluster.records(partition=partition, most=3, offset=57)
    assert (offsets(last), last["next_offset"]) == ([57, 58, 59], None)
    assert offsets(cluster.records(partition=partition, start="time", time="2099-01-01")) == []


@pytest.mark.parametrize("node", [1, 2])
def test_a_filter_finds_the_same_wherever_a_partition_is_led(cluster: Cluster, node: int) -> None:
    partition = led_by(cluster, node)[0]
    wanted = {"json": f"$.number >= 10 and $.number < 20 and $.partition == {partition}", "header": "n=1"}
    for start, expected in (("newest", list(range(19, 9, -1))), ("oldest", list(range(10, 20)))):
        page = cluster.records(partition=partition, start=start, **wanted)
        assert (offsets(page), page["looked_at"]) == (expected, EACH)
    page = cluster.records(partition=partition, start="oldest", most=2, **wanted)
    assert (offsets(page), page["next_offset"]) == ([10, 11], 12)


@pytest.mark.parametrize("node", [1, 2])
def test_a_record_is_downloaded_and_produced_again(cluster: Cluster, node: int) -> None:
    partition = led_by(cluster, node)[-1]
    place = {"topic": "spread", "partition": partition, "offset": 7}
    assert cluster.ask("/api/records/raw", **place) == (200, json.dumps({"partition": partition, "number": 7}))
    assert json.loads(cluster.ask("/api/records/raw", part="headers", **place)[1]) == [{"name": "n", "text": "7"}]
    assert cluster.ask("/api/records/raw", **{**place, "offset": 10_000})[0] == 404
    form = json.loads(cluster.ask("/api/records/produce", **place)[1])
    assert (form["key"], form["key_as"]) == ("AP8=", "base64")
    names = ("key", "key_as", "value", "headers", "partition")
    status, text = cluster.ask("/api/topics/spread/records", {name: form[name] for name in names})
    assert status == 200, text
    again = json.loads(cluster.ask("/api" + json.loads(text)["see"])[1])["records"]
    assert [each["headers"][0]["value"]["text"] for each in again] == ["7"]


def ended(cluster: Cluster, see: str) -> Any:
    def state() -> Any:
        return json.loads(cluster.ask(f"/api{see}")[1])

    eventually(lambda: state()["state"] != "running", "the search ends")
    return state()


def test_a_search_reads_the_partitions_of_all_nodes(cluster: Cluster) -> None:
    wanted = {"topic": "spread", "json": "$.number >= 10 and $.number < 12"}
    found = ended(cluster, json.loads(cluster.ask("/api/searches", wanted)[1])["see"])
    assert (found["state"], found["reason"], found["elsewhere"], found["gaps"]) == ("done", "", [], [])
    places = {(each["partition"], each["offset"]) for each in found["records"]}
    assert places == {(partition, offset) for partition in range(PARTITIONS) for offset in (10, 11)}
    assert found["records_seen"] >= PARTITIONS * EACH
    assert (found["share"], found["read_bytes"]) == (1.0, found["total_bytes"])


@pytest.mark.parametrize("node", [1, 2])
def test_a_search_goes_on_behind_what_it_has_found(cluster: Cluster, node: int) -> None:
    server = Producer({"bootstrap.servers": cluster.server})
    partition = led_by(cluster, node)[0]
    for _ in range(450):
        server.produce("spread", b"many", b"many", partition)
    assert server.flush(60) == 0
    wanted = {"topic": "spread", "key": "many", "partition": partition}
    see, places, counts = json.loads(cluster.ask("/api/searches", wanted)[1])["see"], [], []
    while see:
        found = ended(cluster, see)
        places += [(each["partition"], each["offset"]) for each in found["records"]]
        counts.append((len(found["records"]), found["found_before"]))
        see = json.loads(cluster.ask(f"/api{see}/more", {})[1])["see"] if found["may_go_on"] else ""
    assert counts == [(200, 0), (200, 200), (50, 400)]
    assert len(set(places)) == 450


def test_the_csv_of_a_page_has_all_partitions(cluster: Cluster) -> None:
    text = cluster.ask("/records/csv", topic="spread", json="$.number == 3")[1]
    assert sorted(each["partition"] for each in csv.DictReader(io.StringIO(text))) == ["0", "1", "2", "3"]
