"""The data source reads the files of a running node: what is lent, when Fetch takes over, and what is refused."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_lender import Lending

from kpybroker.client.client import Client, Spot
from kpybroker.machines.scan.errors import BadOption, NotLentYet, ScanError
from kpybroker.machines.scan.options import for_batch, for_stream, read_options
from kpybroker.pipeline.scan import files_first, lent_files
from kpybroker.pipeline.scan.borrowing import SecondPort
from kpybroker.pipeline.scan.fetching import FetchTransport
from kpybroker.pipeline.scan.files import FileTransport
from kpybroker.pipeline.scan.lent_files import port_of
from kpybroker.spark import one_line
from kpybroker.spark.reader import BatchReader
from kpybroker.spark.stream_reader import StreamReader
from kpybroker.spark.task import SparkTask
from support.waiting import eventually

RECORDS = 4_000
"""The records have 2 000 bytes each: they fill eight segments."""


@pytest.fixture(autouse=True)
def _no_traceback_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(one_line.HIDE, "")


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Lending]:
    made = Lending(tmp_path / "data")
    try:
        made.create("t")
        made.produce("t", range(RECORDS))
        yield made
    finally:
        made.stop()


def reported(lending: Lending, **options: Any) -> dict[str, str]:
    port = f"http://127.0.0.1:{lending.node.node.http_port}"
    usual = {"kafka.bootstrap.servers": lending.servers, "subscribe": "t", "secondPorts": port, "columns": "offset"}
    return {**usual, "taskBytes": "1000000", **options}


def reader_of(lending: Lending, **options: Any) -> BatchReader:
    given = reported(lending, **options)
    return BatchReader(for_batch(read_options(given), given))


def offsets(reader: BatchReader | StreamReader, tasks: list[Any]) -> list[int]:
    """The offsets of all tasks, each of which reads in another process."""
    copies = [pickle.loads(pickle.dumps(task)) for task in tasks]
    return sorted(n for task in copies for rows in reader.read(task) for n in rows.column("offset").to_pylist())


def tasks_of(reader: BatchReader) -> list[SparkTask]:
    return [task for task in reader.partitions() if isinstance(task, SparkTask)]


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ranges that were read by Fetch."""
    seen: list[str] = []
    pieces = FetchTransport.pieces

    def noting(self: FetchTransport, part: Any, wanted: Any) -> Any:
        seen.append(str(part))
        return pieces(self, part, wanted)

    monkeypatch.setattr(FetchTransport, "pieces", noting)
    return seen


@pytest.mark.parametrize("transport", ["files", "auto"])
def test_each_task_has_the_files_that_it_needs_and_no_fetch(
    lending: Lending, fetches: list[str], transport: str
) -> None:
    reader = reader_of(lending, transport=transport)
    tasks = tasks_of(reader)
    assert len(tasks) >= RECORDS * 2_000 // 1_000_000
    needed = [len(task.ways.lent.manifests["t", 0].segments) for task in tasks if task.ways.lent is not None]
    assert len(needed) == len(tasks)
    assert max(needed) <= 2
    assert offsets(reader, tasks) == list(range(RECORDS))
    assert fetches == []


def test_a_small_plan_and_another_transport_need_no_lease(lending: Lending) -> None:
    small = reader_of(lending, endingOffsets='{"t": {"0": 100}}')
    for reader in (small, reader_of(lending, transport="fetch")):
        assert all(task.ways.lent is None for task in tasks_of(reader))
    assert lending.nothing_is_lent()


def test_fetch_takes_over_when_the_lease_is_over(lending: Lending, fetches: list[str]) -> None:
    reader = reader_of(lending, transport="auto")
    tasks = tasks_of(reader)
    assert tasks[0].ways.lent is not None
    tasks[0].ways.lent.end()
    assert offsets(reader, tasks) == list(range(RECORDS))
    assert len(fetches) == len(tasks)


def test_with_files_alone_a_range_is_lent_again_when_the_lease_is_over(lending: Lending, fetches: list[str]) -> None:
    reader = reader_of(lending, transport="files")
    tasks = tasks_of(reader)
    assert tasks[0].ways.lent is not None
    tasks[0].ways.lent.end()
    assert offsets(reader, tasks) == list(range(RECORDS))
    assert fetches == []
    eventually(lending.nothing_is_lent, "the tasks give back what they borrowed", within_s=30)


@pytest.mark.parametrize("transport", ["files", "auto"])
def test_a_lease_that_ends_in_the_middle_of_a_range_costs_no_rows_and_doubles_none(
    lending: Lending, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    reader = reader_of(lending, transport=transport, taskBytes="100000000")
    (task,) = tasks_of(reader)
    assert task.ways.lent is not None
    left = iter(range(3))

    def renew(files: files_first.FilesFirst) -> None:
        if next(left, None) == 2:
            files._lent.end()

    monkeypatch.setattr(files_first.FilesFirst, "_renew", renew)
    assert offsets(reader, [task]) == list(range(RECORDS))


def test_files_that_are_not_lent_again_are_an_error(lending: Lending) -> None:
    reader = reader_of(lending, transport="files")
    tasks = tasks_of(reader)
    assert tasks[0].ways.lent is not None
    tasks[0].ways.lent.end()
    reader._options = reader._options._replace(
        second_ports=("127.0.0.1:1",), properties={**reader._options.properties, "default.api.timeout.ms": "10"}
    )
    with pytest.raises(ScanError, match=r"127\.0\.0\.1:1 does not answer"):
        offsets(reader, tasks)


def test_a_lease_is_renewed_while_tasks_read(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(lending, transport="files", leaseMs="60000")
    tasks = tasks_of(reader)
    renewed: list[str] = []
    monkeypatch.setattr(SecondPort, "post", lambda _self, path, _body: renewed.append(path) or b"")
    offsets(reader, tasks)
    offsets(reader, tasks)
    assert renewed == ["/leases/renew"], "a lease that was renewed lately is not renewed again"
    monkeypatch.setattr(files_first, "RENEWED_AFTER", 0.0)
    offsets(reader, tasks)
    assert len(renewed) > len(tasks)


def test_a_plan_without_anything_to_read_borrows_nothing(lending: Lending) -> None:
    reader = reader_of(lending, transport="files", filter="partition = 7")
    assert reader.partitions() == []
    assert lending.nothing_is_lent()


def test_a_stream_gives_each_micro_batch_back_before_the_next(lending: Lending) -> None:
    given = reported(lending, transport="files", startingOffsets="earliest", maxOffsetsPerTrigger="2500")
    reader = StreamReader(for_stream(read_options(given), given))
    start = reader.initialOffset()
    middle = reader.latestOffset()
    first = [task for task in reader.partitions(start, middle) if isinstance(task, SparkTask)]
    assert first[0].ways.lent is not None
    lent = set(lending.lent_files())
    end = reader.latestOffset()
    reader.partitions(middle, end)
    eventually(lambda: lent.isdisjoint(lending.lent_files()), "the first lease is given back", within_s=30)
    assert lending.lent_files()
    reader.stop()
    assert lending.nothing_is_lent()


def not_lent_at_first(monkeypatch: pytest.MonkeyPatch, times: int) -> Iterator[int]:
    """Let brokers lend nothing for the first requests. The result has the times that are left."""
    left, post = iter(range(times)), SecondPort.post

    def refuse(port: SecondPort, path: str, body: Any) -> bytes:
        if path == "/leases" and next(left, None) is not None:
            raise NotLentYet(f"{port.url} does not answer: it starts")
        return post(port, path, body)

    monkeypatch.setattr(SecondPort, "post", refuse)
    return left


def test_a_stream_waits_for_files_of_a_broker_that_starts(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    given = reported(lending, transport="files", startingOffsets="earliest")
    reader = StreamReader(for_stream(read_options(given), given))
    start, end = reader.initialOffset(), reader.latestOffset()
    left = not_lent_at_first(monkeypatch, 3)
    tasks = list(reader.partitions(start, end))
    assert next(left, None) is None
    assert offsets(reader, tasks) == list(range(RECORDS))
    reader.stop()


def test_a_batch_does_not_wait_for_files(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    left = not_lent_at_first(monkeypatch, 3)
    with pytest.raises(ScanError, match="does not answer: it starts"):
        reader_of(lending, transport="files").partitions()
    assert list(left) == [1, 2]


def test_files_of_another_cluster_are_not_read(lending: Lending, tmp_path: Path) -> None:
    other = Lending(tmp_path / "other")
    try:
        address = f"http://127.0.0.1:{other.node.node.http_port}"
        with pytest.raises(ScanError, match="belongs to cluster"):
            reader_of(lending, transport="files", secondPorts=address).partitions()
        assert other.nothing_is_lent()
    finally:
        other.stop()


def test_the_reason_why_files_cannot_be_read_is_one_line(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScanError, match=r"http://127\.0\.0\.1:1 does not answer"):
        reader_of(lending, transport="files", secondPorts="127.0.0.1:1").partitions()
    monkeypatch.setattr(FileTransport, "has", lambda _self, _part: False)
    with pytest.raises(ScanError, match=r"transport=files: t-0: its files in .* cannot be read here"):
        reader_of(lending, transport="files").partitions()
    assert lending.nothing_is_lent()


def test_without_a_second_port_the_option_is_named(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_files, "LOOPBACK", ("no host",))
    monkeypatch.setattr(lent_files, "_configured", lambda _client, _node_id: None)
    with pytest.raises(ScanError, match="the option secondPorts names it"):
        reader_of(lending, transport="files", secondPorts="").partitions()


def test_second_ports_are_found_by_the_configuration_of_brokers(lending: Lending) -> None:
    with Client(lending.servers) as client:
        client.leader(Spot("t", 0))
        assert [port.url for port in lent_files._found_ports(client)] == ["http://127.0.0.1:0"]


def test_addresses_of_second_ports_may_have_a_user() -> None:
    assert port_of("https://al%40ice:se%2Fcret@h:9/") == SecondPort("https://h:9", "al@ice", "se/cret")
    assert port_of("[::1]:9404") == SecondPort("http://[::1]:9404")
    with pytest.raises(BadOption, match=r"it looks like http://127\.0\.0\.1:9404"):
        port_of("ftp://h")
