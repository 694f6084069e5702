"""Dead letters of records that only the store has: copies of keys and values come from there (KIP-1191, KIP-405)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_node import RunningNode, start
from test_dead_letters_node import TO_TOPIC, enabled_topic, named, wait_for_letters
from test_share_node import REJECT, SETTINGS, Group, Member

from kpybroker.hosts.remote_log.reads import RemoteReads
from kpybroker.requests.serving.share import dead_letter_writer
from kpywire import error_codes
from support.raw_client import RawClient, connect
from support.raw_requests import offset_at
from support.waiting import eventually
from tiered.filling import alter, fill

EARLIEST_LOCAL = -4
BATCHES = 4
COUNT = 2 * BATCHES
TIERED = {
    "remote_storage_enable": "true",
    "segment_ms": "1000",
    "retention_ms": "-1",
    "local_retention_bytes": "1",
    "file_delete_delay_ms": "100",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    found = tmp_path / "store"
    found.mkdir()
    return found


@pytest.fixture
def client(tmp_path: Path, store: Path) -> Iterator[RawClient]:
    running: RunningNode = start(
        tmp_path / "data",
        kpybroker_remote_store=f"file://{store}",
        remote_log_storage_system_enable="true",
        remote_log_manager_task_interval_ms="100",
        log_retention_check_interval_ms="100",
        log_initial_task_delay_ms="100",
        rlmm_config_remote_log_metadata_topic_num_partitions="1",
        **SETTINGS,
    )
    with connect(f"127.0.0.1:{running.port}") as connected:
        yield connected
    running.stop()


def tiered_member(client: RawClient) -> Member:
    """A member that has acquired all records, of which the disk has the last two alone."""
    enabled_topic(client)
    group = Group(client, **TO_TOPIC, errors_deadletterqueue_copy_record_enable="true")
    alter(client, "t", **TIERED)
    fill(client, "t", range(BATCHES))
    eventually(lambda: offset_at(client, "t", EARLIEST_LOCAL)[2] == COUNT - 2, "all but the last batch in the store")
    member = Member(client, group.topic_id, "m")
    acquired: list[tuple[int, int, int]] = []

    def has_all() -> bool:
        acquired.extend(member.got(max_records=100))
        return bool(acquired) and acquired[-1][1] == COUNT - 1

    eventually(has_all, "all records")
    return member


def test_dead_letters_have_copies_of_records_that_only_the_store_has(client: RawClient) -> None:
    member = tiered_member(client)
    assert member.acknowledge((0, COUNT - 1, [REJECT])) == error_codes.NONE
    found = wait_for_letters(client, COUNT)
    assert [int(named(record)["offset"]) for record in found] == list(range(COUNT))
    assert [int((record.value or b"").partition(b":")[0]) for record in found] == [each // 2 for each in range(COUNT)]
    assert [record.key for record in found] == [b"%d" % (each % 2) for each in range(COUNT)]


def test_dead_letters_have_no_copies_from_a_store_that_does_not_answer(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_writer, "STORE_WAIT_MS", 500.0)
    member = tiered_member(client)
    monkeypatch.setattr(RemoteReads, "read", lambda *_asked: None)
    assert member.acknowledge((2, COUNT - 1, [REJECT])) == error_codes.NONE
    found = wait_for_letters(client, COUNT - 2)
    assert {int(named(record)["offset"]): record.value is None for record in found} == {
        offset: offset < COUNT - 2 for offset in range(2, COUNT)
    }
