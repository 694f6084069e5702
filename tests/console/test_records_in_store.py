"""Records that only the store of a tiered topic has, in the console: shown, searched, and each by its offset; and the
lag in time of groups that have them before them."""

from collections.abc import Iterator
from time import time

import pytest
from console_node import ConsoleNode, node_on_disk

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from support.raw_requests import offset_at
from support.waiting import eventually
from tiered.filling import BASE_MS, STEP_MS, create_tiered, fill, time_of

EARLIEST_LOCAL = -4
STEP_S = STEP_MS / 1000
SEGMENTS = 6
RECORDS = 2 * SEGMENTS


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleNode]:
    """A node whose disk has the last two records of a topic alone."""
    directory = tmp_path_factory.mktemp("tiered")
    (directory / "store").mkdir()
    often = dict.fromkeys(("remote_log_manager_task_interval_ms", "log_retention_check_interval_ms"), "100")
    store = {
        "remote_log_storage_system_enable": "true",
        "kpybroker_remote_store": (directory / "store").as_uri(),
        "log_initial_task_delay_ms": "100",
        "rlmm_config_remote_log_metadata_topic_num_partitions": "1",
    }
    with node_on_disk(directory / "data", **often, **store) as made, made.client as raw:
        create_tiered(raw, "t", only_remote=True)
        fill(raw, "t", range(SEGMENTS))
        eventually(lambda: offset_at(raw, "t", EARLIEST_LOCAL)[2] == RECORDS - 2, "all but the last segment to be gone")
        yield made


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        ({"start": "oldest"}, range(RECORDS)),
        ({"start": "oldest", "most": 3}, range(3)),
        ({"start": "offset", "offset": 5}, range(5, RECORDS)),
        ({"start": "offset", "offset": RECORDS - 2}, range(RECORDS - 2, RECORDS)),
        ({"start": "time", "time": time_of(2)}, range(4, RECORDS)),
        ({"start": "time", "time": BASE_MS - 1}, range(RECORDS)),
        ({"start": "newest", "most": 2}, reversed(range(RECORDS - 2, RECORDS))),
        ({"start": "newest", "most": 5}, reversed(range(RECORDS - 5, RECORDS))),
        ({"start": "newest", "text": "1:"}, (3, 2)),
        ({"start": "oldest", "since": time_of(4)}, range(8, RECORDS)),
    ],
)
def test_records_are_shown_from_the_store_and_the_disk(
    node: ConsoleNode, beginning: dict[str, object], expected: Iterator[int]
) -> None:
    page = node.get("/api/records", topic="t", **beginning).json
    assert [each["offset"] for each in page["records"]] == list(expected)
    assert (page["gaps"], page["elsewhere"]) == ([], [])


def test_a_search_finds_what_only_the_store_has(node: ConsoleNode) -> None:
    see = node.post("/searches", topic="t", text="3:").json["see"]
    eventually(lambda: node.get(f"/api{see}").json["state"] == "done", "the end of the search")
    page = node.get(f"/api{see}").json
    assert [each["offset"] for each in page["records"]] == [6, 7]
    assert (page["gaps"], page["elsewhere"]) == ([], [])


@pytest.mark.parametrize("offset", [0, 7, RECORDS - 1])
def test_each_record_has_its_own_download(node: ConsoleNode, offset: int) -> None:
    reply = node.get("/records/raw", topic="t", partition=0, offset=offset)
    assert (reply.status, reply.text.rstrip(".")) == (200, f"{offset // 2}:")


@pytest.mark.parametrize("offset", [0, 7, RECORDS - 1])
def test_the_lag_in_time_of_a_group_is_that_of_its_next_record_wherever_that_is(node: ConsoleNode, offset: int) -> None:
    name = f"at-{offset}"
    node.commit(name, "t", offset)
    late_s = time() - time_of(offset // 2) / 1000
    found = node.get("/api/group", id=name).json
    assert (found["lag_s"], found["untimed"], found["silent_nodes"]) == (pytest.approx(late_s, abs=STEP_S / 2), 0, [])

    def is_listed() -> bool:
        return any(each["id"] == name for each in node.get("/api/groups").json["groups"])

    eventually(is_listed, "the list, which is kept for a moment, has the group")
    listed = next(each for each in node.get("/api/groups").json["groups"] if each["id"] == name)
    assert (listed["lag_s"], listed["untimed"]) == (pytest.approx(late_s, abs=STEP_S / 2), 0)
    sample = f'kpybroker_consumergroup_lag_seconds{{consumergroup="{name}",topic="t",partition="0"}} '
    (value,) = [line.removeprefix(sample) for line in node.get("/metrics").text.splitlines() if line.startswith(sample)]
    assert float(value) == pytest.approx(late_s, abs=STEP_S / 2)


def test_a_store_that_does_not_answer_is_named_and_metrics_have_the_least_lag(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreFailed("away")

    monkeypatch.setattr(segment_reads, "first_header", away)
    node.commit("unlucky", "t", 3)
    found = node.get("/api/group", id="unlucky").json
    assert (found["lag"], found["lag_s"], found["untimed"]) == (RECORDS - 3, None, 1)
    assert found["silent_nodes"] == ["the store of tiered topics has not answered"]
    sample = 'kpybroker_consumergroup_lag_seconds{consumergroup="unlucky",topic="t",partition="0"} '
    (value,) = [line.removeprefix(sample) for line in node.get("/metrics").text.splitlines() if line.startswith(sample)]
    assert float(value) == pytest.approx(time() - time_of(SEGMENTS - 1) / 1000, abs=STEP_S / 2)
