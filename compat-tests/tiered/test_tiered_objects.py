"""Scans that read the store of any tiered broker directly have the rows that they have by Fetch."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kpybroker.machines.scan.options import ScanOptions, read_options
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan.connecting import client_of, transport_of
from kpybroker.pipeline.scan.fetching import FetchTransport
from kpybroker.pipeline.scan.reading import rows
from kpybroker.pipeline.scan.ways import WayPlanner
from support.clusters import Cluster
from support.raw_client import RawClient
from support.special_timestamps import EARLIEST_LOCAL, LATEST
from support.waiting import becomes, eventually
from tiered.filling import create_tiered, fill, fill_transactions
from tiered.nodes import LOCAL_TIERED_STORAGE
from tiered.reading import offset

SEGMENTS = 6


def options(cluster: Cluster, name: str, store: Path, transport: str, *, committed: bool = False) -> ScanOptions:
    return read_options(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
            "subscribe": name,
            "transport": transport,
            "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
            "rsm.config.dir": str(store),
        }
    )


def read(wanted: ScanOptions, part: OffsetRange) -> list[dict[str, Any]]:
    """The rows of a range."""
    with client_of(wanted) as client:
        ways = WayPlanner(wanted).ways(client, [part], {})
    assert (ways.copied is not None) == (wanted.transport == "objects")
    transport = transport_of(wanted, ways)
    try:
        return [row for batch in rows(transport, part, wanted.wanted) for row in batch.to_pylist()]
    finally:
        transport.close()


def test_records_in_the_store_are_read_without_a_fetch(
    tiered_node: Cluster, client: RawClient, name: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = create_tiered(client, name, only_remote=True)
    fill(client, name, range(SEGMENTS))
    border = 2 * SEGMENTS - 2
    becomes(partial(offset, client, name, EARLIEST_LOCAL), border)
    part = OffsetRange(name, topic_id, 0, 0, border)
    wanted = read(options(tiered_node, name, store, "fetch"), part)
    assert [row["offset"] for row in wanted] == list(range(border))
    with monkeypatch.context() as patch:
        patch.setattr(FetchTransport, "pieces", None)
        assert read(options(tiered_node, name, store, "objects"), part) == wanted
        assert read(options(tiered_node, name, store, "objects", committed=True), part) == wanted


def test_committed_records_on_both_sides_of_the_border_are_those_of_fetch(
    tiered_node: Cluster, client: RawClient, name: str, store: Path
) -> None:
    topic_id = create_tiered(client, name, only_remote=True)
    fill_transactions(client, name, range(8))
    end = offset(client, name, LATEST)
    eventually(lambda: offset(client, name, EARLIEST_LOCAL) > end // 2, "most records to be in the store alone")
    for start, stop in ((0, end), (0, end // 2), (3, end - 1), (end // 3, end // 2)):
        part = OffsetRange(name, topic_id, 0, start, stop)
        for committed in (False, True):
            by_fetch, by_objects = (
                read(options(tiered_node, name, store, transport, committed=committed), part)
                for transport in ("fetch", "objects")
            )
            assert by_objects == by_fetch, (start, stop, committed)
