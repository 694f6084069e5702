"""No page holds the event loop, whatever there is to show: its longest step is counted in calls (`make budget`)."""

import asyncio
from functools import partial

import pytest
from console_node import FORM, JSON, console_node
from steps import EXCEPT, MOST, PIECE, Steps, crowded, longest_of, longest_steps

from kpybroker.hosts.replicas import upkeep
from kpybroker.monitoring.console import query
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.record import Record

GROUPS, PARTITIONS = 500, 10
"""A crowd of groups, and the positions of each."""


def test_no_page_of_a_crowded_node_holds_the_loop() -> None:
    with crowded() as stage:
        found = longest_steps(stage)
    assert {path: calls for path, calls in found.items() if calls > EXCEPT.get(path, MOST)} == {}
    assert max(found.values()) > PIECE, "the node is crowded: some page has to give way"


@pytest.mark.slow
def test_a_topic_of_thousands_of_partitions_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FLUSH_CHECK_MS", 3_600_000)  # a look at each partition, which is not the console's
    with console_node(kpybroker_console_write_enable="true") as node:
        node.create("wide", 5_000)
        node.commit("readers", "wide", 0)
        for path in ("/topics", "/topics?sort=-size", "/topics?sort=-lag", "/topics?sort=state", "/topics/wide"):
            assert longest_of(node, partial(node.get, path), 200) <= MOST, path


@pytest.mark.slow
def test_a_list_of_hundreds_of_groups_does_not_hold_the_loop() -> None:
    with console_node() as node:
        node.create("wide", PARTITIONS)
        for partition in range(PARTITIONS):
            node.produce("wide", [Record(value=b"v", timestamp=1_000)] * 30, partition)
        node.commit("group-0", "wide", 0)
        with node.client as client:
            for number in range(1, GROUPS):
                spots = [
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=(number + index) % 30, committed_metadata=""
                    )
                    for index in range(PARTITIONS)
                ]
                topics = [OffsetCommitRequestTopic(name="wide", partitions=spots)]
                answer = client.call(OffsetCommitRequest(group_id=f"group-{number}", topics=topics), 2)
                assert {each.error_code for each in answer.topics[0].partitions} == {0}
        addresses = (
            "/groups",
            "/groups?sort=-time",
            "/api/groups",
            "/api/groups?sort=group",
            "/topics",
            "/topics/wide",
        )
        for address in (*addresses, "/find?q=group"):
            assert longest_of(node, partial(node.get, address), 200) <= MOST, address


@pytest.mark.parametrize("value", [b"[1]", b"[[1]]", b'{"a":1}', b'"a"', b"[]", b"1"])
def test_records_of_many_small_json_parts_do_not_hold_the_loop(value: bytes) -> None:
    large = b"[" + b",".join([value] * (16_000 // (len(value) + 1))) + b"]"
    with console_node() as node:
        node.create("parts")
        node.produce("parts", [Record(value=large, timestamp=1)] * 20)
        for path in ("/records", "/api/records"):
            for form in ("auto", "json", "text"):
                assert longest_of(node, partial(node.get, path, topic="parts", form=form), 200) <= MOST, (path, form)


@pytest.mark.parametrize("text", ["\u200b", "\n", "\t\x01", "\x00"])
def test_records_of_characters_that_cannot_be_seen_do_not_hold_the_loop(text: str) -> None:
    data = (text * 16_000).encode()[:15_999]
    with console_node() as node:
        node.create("hidden")
        node.produce("hidden", [Record(value=data, timestamp=1)] * 20)
        assert longest_of(node, lambda: node.get("/records", topic="hidden", form="text"), 200) <= MOST


def test_a_large_form_does_not_hold_the_loop_whether_its_token_is_right_or_not() -> None:
    with console_node(kpybroker_console_write_enable="true") as node:
        node.create("t")
        token = node.get("/topics").text.partition('name="token" value="')[2].partition('"')[0]
        for given, status in ((token, 303), ("wrong", 403)):
            form = f"token={given}&value=" + "%41" * 340_000
            assert len(form) < 1024 * 1024
            ask = partial(node.request, "POST", "/topics/t/records", FORM, form)
            assert longest_of(node, ask, status) <= MOST


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"value": "' + b"a" * 1_000_000 + b'"}', 200),
        (b'{"value": "' + b"\\u00e9" * query.MOST_ESCAPES + b'"}', 200),
        (b'{"value": [' + b"1," * (query.MOST_PARTS // 2) + b"1]}", 200),
        (b"[" * 1_000_000, 400),
        (b'{"a": ' * 150_000, 400),
        (b'"a",' * 250_000, 400),
    ],
)
def test_a_large_body_of_json_does_not_hold_the_loop(body: bytes, status: int) -> None:
    with console_node(kpybroker_console_write_enable="true") as node:
        node.create("t")
        ask = partial(node.request, "POST", "/api/topics/t/records", JSON, body)
        assert longest_of(node, ask, status) <= MOST


def test_work_that_does_not_give_way_is_found() -> None:
    async def work(pause_after: int) -> None:
        for number in range(2 * MOST):
            abs(number)
            if number % pause_after == pause_after - 1:
                await asyncio.sleep(0)

    with console_node() as node:
        longest = []
        for pause_after in (100, 2 * MOST):
            steps = Steps()
            node.call(steps.start)
            node.run(work(pause_after))
            longest.append(node.call(steps.stop))
    assert longest[0] < MOST < longest[1]
