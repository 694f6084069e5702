"""Tiered storage works alike in KRaft mode and in ZooKeeper mode."""

import asyncio
import os
from pathlib import Path

import both_modes
import pytest

from kpybroker.node.node import Node
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from support.raw_client import RawClient
from support.raw_requests import deletion, offset_at
from support.raw_transactions import fetch, records_in
from support.waiting import becomes, eventually
from tiered.filling import create_tiered, fill, time_of

EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
CONFIGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}


def served(raw: RawClient) -> dict[int, int]:
    """The newest version of each API that the node serves."""
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    return {each.api_key: each.max_version for each in raw.call(asked, 3).api_keys}


@pytest.mark.parametrize("mode", both_modes.MODES)
def test_segments_are_copied_read_and_deleted_with_their_topic(mode: str, tmp_path: Path) -> None:
    def ask(port: int) -> None:
        with RawClient(port) as raw:
            raw.newest = served(raw)
            create_tiered(raw, "t", local_retention_bytes="1")
            fill(raw, "t", range(5))
            becomes(lambda: offset_at(raw, "t", EARLIEST_LOCAL)[2], 8)
            found: list[int] = []
            offset = 0
            while offset < 10:
                answer = fetch(raw, "t", offset, committed=False, max_wait_ms=5_000)
                assert answer.error_code == error_codes.NONE
                found += [each.offset for each in records_in(answer) if each.offset >= offset]
                offset = found[-1] + 1 if found else 0
            assert found == list(range(10))
            assert offset_at(raw, "t", time_of(1))[2] == 2
            raw.call(deletion("t"), 6)
            eventually(lambda: not any(names for _, _, names in os.walk(tmp_path)), "an empty store")

    async def story(node: Node) -> None:
        await asyncio.to_thread(ask, node.ports["PLAINTEXT"])

    both_modes.played(mode, story, {**CONFIGS, "kpybroker.remote.store": f"file://{tmp_path}"})
