"""Any flipped bit of any file is found by `kpybroker check`, and a broker serves, or refuses in one clear line."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from contents import COMPACTED, Contents, differences, look
from filling import CODECS, DELETED, create_topics, fill

from kpybroker.cli import main
from kpybroker.cli.checking import check_directories
from kpybroker.pipeline.audit import mapping
from kpystorage.checking.findings import DAMAGE, Finding
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oracle import BrokerProcessError
from support.raw_client import RawClient
from support.targets import KpyBroker

PATIENCE_S = 60.0
PROPERTIES = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "1", "node.id": "1"}
MEANINGLESS = {
    "a comment": (r"meta\.properties", rb"#.*"),
    "the cluster's id, which stands nowhere else": (r"meta\.properties", rb"cluster\.id=.*"),
    "a high watermark below the log's end, which its leader finds again": (
        r"replication-offset-checkpoint",
        rb"\S+ \d+ \d+",
    ),
    "how far a log was compacted": (r"cleaner-offset-checkpoint", rb"\S+ \d+ \d+"),
}
"""The places where a bit can change unnoticed or without effect: the name of the line, the files, the line."""


class PatientBroker(KpyBroker):
    """A machine that does much else may take its time with a start or a stop."""

    start_timeout_s = stop_timeout_s = PATIENCE_S


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cleanly stopped broker's directory with everything in it."""
    broker = PatientBroker(PROPERTIES, directory=tmp_path_factory.mktemp("home"))
    with broker:
        create_topics(broker.port)
        fill(broker.port, 0)
        broker.restart()
        fill(broker.port, 1)
    return broker.directory


def findings(data: Path) -> set[tuple[str, str]]:
    found = check_directories([str(data)], lambda _: None, lambda _: None).findings
    return {(each.path, each.text) for each in found}


def damages(data: Path) -> list[Finding]:
    found = check_directories([str(data)], lambda _: None, lambda _: None).findings
    return [each for each in found if each.level == DAMAGE]


def flips(data: Path, count: int, seed: int) -> Iterator[tuple[Path, int]]:
    """(file, bit) with every kind of file alike often, whatever its size."""
    rng = random.Random(seed)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(data.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(path.suffix or path.name, []).append(path)
    for number in range(count):
        path = rng.choice(kinds[sorted(kinds)[number % len(kinds)]])
        yield path, rng.randrange(8 * path.stat().st_size)


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def is_meaningless(path: Path, content: bytes, bit: int) -> bool:
    """Whether a bit of a file's content is one that nobody can tell, or nobody cares for."""
    byte = bit // 8
    if path.parent.name == f"{COMPACTED}-0" and path.suffix == ".log":
        return any(0 <= byte - position < 8 for position, _ in batch_headers(content))  # the offset of one between gaps
    if path.parent.name == f"{DELETED}-0" and path.suffix == ".log":
        return any(12 <= byte - position < 16 for position, _ in batch_headers(content))  # the epoch of deleted records
    start = content.rfind(b"\n", 0, byte) + 1
    line = content[start:].split(b"\n")[0]
    return byte - start <= len(line) and any(
        re.fullmatch(name, path.name) and re.fullmatch(pattern, line) for name, pattern in MEANINGLESS.values()
    )


def test_files_of_a_stopped_broker_have_no_findings(home: Path) -> None:
    assert damages(home / "data") == []


@pytest.mark.slow
def test_check_finds_any_flipped_bit(home: Path, request: pytest.FixtureRequest) -> None:
    data = home / "data"
    before = findings(data)
    count, seed = request.config.getoption("--flips"), request.config.getoption("--flip-seed")
    for path, bit in flips(data, count, seed):
        content = path.read_bytes()
        flip(path, bit)
        try:
            assert findings(data) != before or is_meaningless(path, content, bit), f"{path}, bit {bit}"
        finally:
            path.write_bytes(content)


@pytest.mark.slow
def test_a_broker_serves_or_refuses_in_one_line_whatever_bit_is_flipped(
    home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, seed = request.config.getoption("--flips") // 10, request.config.getoption("--flip-seed") + 1
    for number, (path, bit) in enumerate(flips(home / "data", count, seed)):
        broker = PatientBroker(PROPERTIES, directory=tmp_path / str(number))
        shutil.copytree(home / "data", broker.directory / "data")
        flip(broker.directory / "data" / path.relative_to(home / "data"), bit)
        what = f"{path}, bit {bit}"
        broker.prepare()
        try:
            broker.start()
        except BrokerProcessError:
            reported = [line for line in broker.output.read_text().splitlines() if line.startswith("kpybroker: ")]
            assert len(reported) == 1, what
        else:
            broker.stop()
        assert "Traceback" not in broker.output.read_text(), what
        shutil.rmtree(broker.directory)


def test_repair_mends_what_its_neighbours_tell_and_loses_nothing(home: Path, tmp_path: Path) -> None:
    broker = PatientBroker(PROPERTIES, directory=tmp_path)
    data = tmp_path / "data"
    shutil.copytree(home / "data", data)
    with broker:
        seen: Contents = look(broker.port)
    segments = sorted((data / "codecs-0").glob("*.log"))
    for number, segment in enumerate(segments[:4]):
        flip(segment, (7, 9, 15, 16)[number] * 8)  # base offset, length, epoch, magic
    flip(next((data / "transactions-0").glob("*.txnindex")), 80)
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
        flip(data / name, 0)
    flip(data / "plain-1" / "partition.metadata", 8 * 30)
    assert CliRunner().invoke(main, ["check", str(data)]).exit_code == 1
    repaired = CliRunner().invoke(main, ["check", "--repair", str(data)])
    assert repaired.exit_code == 0, repaired.output
    assert "lost" not in repaired.output
    with broker:
        assert not differences(seen, look(broker.port))
    assert len(list(data.rglob("*.set-aside-*"))) > 6


@pytest.mark.parametrize("left_bytes", [None, 0])
def test_repair_gives_a_log_the_aborted_transactions_that_its_index_lacks(
    home: Path, tmp_path: Path, left_bytes: int | None
) -> None:
    data = tmp_path / "data"
    shutil.copytree(home / "data", data)
    index = next(each for each in sorted((data / "transactions-0").glob("*.txnindex")) if each.stat().st_size)
    whole = index.read_bytes()
    if left_bytes is None:
        index.unlink()
    else:
        index.write_bytes(whole[:left_bytes])
    looked = CliRunner().invoke(main, ["check", str(data)])
    assert looked.exit_code == 1, looked.output
    assert "lacks" in looked.output
    repaired = CliRunner().invoke(main, ["check", "--repair", str(data)])
    assert repaired.exit_code == 0, repaired.output
    assert index.read_bytes() == whole
    assert damages(data) == []


def test_repair_takes_a_damaged_batch_out_and_says_so(home: Path, tmp_path: Path) -> None:
    broker = PatientBroker(PROPERTIES, directory=tmp_path)
    data = tmp_path / "data"
    shutil.copytree(home / "data", data)
    segment = sorted((data / "codecs-0").glob("*.log"))[1]
    flip(segment, 8 * 100)
    damaged = segment.read_bytes()
    repaired = CliRunner().invoke(main, ["check", "--repair", str(data)])
    assert repaired.exit_code == 0, repaired.output
    assert "taken out, and lost: offsets" in repaired.output
    (aside,) = segment.parent.glob(f"{segment.name}.set-aside-*")
    assert aside.read_bytes() == damaged
    with broker:
        ends = look(broker.port).bounds
    assert ends[CODECS, 0][0] == 0


def test_a_running_broker_is_noticed(home: Path, tmp_path: Path) -> None:
    broker = PatientBroker(PROPERTIES, directory=tmp_path)
    shutil.copytree(home / "data", tmp_path / "data")
    with broker:
        looked = CliRunner().invoke(main, ["check", str(tmp_path / "data")])
        assert "a broker runs with this directory" in looked.output
        assert looked.exit_code == 0, looked.output
        assert CliRunner().invoke(main, ["check", "--repair", str(tmp_path / "data")]).exit_code == 2


def test_much_data_is_read_by_several_processes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = findings(home / "data")
    monkeypatch.setattr(mapping, "PARALLEL_BYTES", 0)
    assert findings(home / "data") == alone


def test_a_partition_is_checked_alone_and_mended_with_its_directory(home: Path) -> None:
    partition = str(home / "data" / "codecs-0")
    found = json.loads(CliRunner().invoke(main, ["check", "--json", partition]).output)
    assert (found["partitions"], found["findings"]) == (1, [])
    assert CliRunner().invoke(main, ["check", "--repair", partition]).exit_code == 2


def test_on_a_terminal_it_says_how_far_it_has_come(home: Path) -> None:
    ours, terminal = os.openpty()
    command = [str(KpyBroker.path), "check", str(home / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # what the end of a terminal is
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        assert b"nothing is wrong" in process.communicate()[0].lower()
    assert b"Reading" in shown
    assert b"100%" in shown


def test_wrong_usage_is_reported(tmp_path: Path) -> None:
    for words in ([], ["/nowhere"], [str(tmp_path)]):
        assert CliRunner().invoke(main, ["check", *words]).exit_code == 2


def test_readers_of_a_damaged_batch_get_an_error_and_the_broker_lives(home: Path, tmp_path: Path) -> None:
    broker = PatientBroker(PROPERTIES, directory=tmp_path)
    shutil.copytree(home / "data", tmp_path / "data")
    flip(sorted((tmp_path / "data" / "codecs-0").glob("*.log"))[0], 8 * 100)
    with broker:
        with pytest.raises(ConnectionError), RawClient(broker.port) as raw:
            fetch_first(raw)
        with RawClient(broker.port) as raw:
            assert fetch_first(raw) == error_codes.CORRUPT_MESSAGE
    lines = [line for line in broker.output.read_text().splitlines() if "is damaged" in line]
    assert len(lines) == 1
    assert "the batch of offsets 0 to" in lines[0]


def fetch_first(raw: RawClient) -> int:
    """The error code of a fetch from the beginning of the damaged partition."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=CODECS, partitions=[wanted])])
    return int(raw.call(request, 12).responses[0].partitions[0].error_code)
