"""A real broker whose disk really fails: the kernel answers EIO, is slow, is full, or writes less than it was given.

What must hold every time: only the directory that failed is offline, and it stays so; nothing that failed is tried
again; one line says why; what was acknowledged is there after the next start.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from faulty_broker import (
    FaultyBroker,
    calls_on,
    create,
    directory_errors,
    fetch,
    injecting,
    produce,
    values,
    why_no_strace,
)
from small_disk import mounted

from kpywire import error_codes
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.raw_client import RawClient
from support.waiting import becomes

pytestmark = pytest.mark.slow
LOG = f"{0:020d}.log"
OFFLINE = error_codes.KAFKA_STORAGE_ERROR
SMALL_BYTES = 2 << 20
LIMIT_BYTES = 1_000_000
WITH_SHORT_FILES = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT_BYTES}, {LIMIT_BYTES}))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_directories_that_fail_go_offline_alone_and_nothing_is_tried_again(tmp_path: Path) -> None:
    reason = why_no_strace()
    if reason:
        pytest.skip(reason)
    places = {name: tmp_path / name for name in ("good", "unwritable", "unsynced", "unreadable")}
    logs = {name: path / f"{name}-0" / LOG for name, path in places.items()}
    dirs = {"log.dirs": ",".join(map(str, places.values()))}
    with FaultyBroker(tmp_path / "first", dirs) as broker, broker.connect() as client:
        for name, path in places.items():
            create(client, name, path, **({"flush_messages": "1"} if name == "unsynced" else {}))
        for number in range(3):
            assert produce(client, "unreadable", b"%d" % number) == error_codes.NONE
            assert produce(client, "good", b"%d" % number) == error_codes.NONE
        broker.kill()  # so that logs are read when they are used
    trace = tmp_path / "trace"
    failing = [logs["unwritable"], logs["unsynced"], logs["unreadable"]]
    # The first write is the one before the fsync that fails, the next two are those to "unwritable".
    faults = ("pwrite64:error=EIO:when=3", "fsync:error=EIO:when=1", "pread64:error=EIO:when=1+")
    with (
        FaultyBroker(tmp_path / "second", dirs, injecting(trace, failing, *faults)) as broker,
        broker.connect() as client,
    ):
        assert [produce(client, "unsynced", b"x") for _ in range(2)] == [OFFLINE, OFFLINE]
        assert [produce(client, "unwritable", b"%d" % number) for number in range(3)] == [0, OFFLINE, OFFLINE]
        assert [fetch(client, "unreadable").error_code for _ in range(2)] == [OFFLINE, OFFLINE]
        assert produce(client, "good", b"3") == error_codes.NONE
        assert values(client, "good") == [b"0", b"1", b"2", b"3"]
        assert directory_errors(client) == dict.fromkeys(places, OFFLINE) | {"good": error_codes.NONE}
        becomes(lambda: leaders(client, places), {name: (-1, [1]) for name in places} | {"good": (1, [])})
        log_text = broker.log_text()
    for name in ("unwritable", "unsynced", "unreadable"):
        assert (
            log_text.count(f"log directory {places[name]} is offline: Input/output error; the disk does not work") == 1
        )
    assert "Traceback" not in log_text
    assert len(calls_on(trace, "fsync", logs["unsynced"])) == 1
    assert len(calls_on(trace, "pwrite64", logs["unwritable"])) == 2
    assert len(calls_on(trace, "pread64", logs["unreadable"])) == 1
    with FaultyBroker(tmp_path / "third", dirs) as broker, broker.connect() as client:
        assert set(directory_errors(client).values()) == {error_codes.NONE}
        assert values(client, "unreadable") == [b"0", b"1", b"2"]
        assert values(client, "good") == [b"0", b"1", b"2", b"3"]
        assert values(client, "unwritable") == [b"0"]
        for name in places:
            assert produce(client, name, b"on") == error_codes.NONE


def test_a_slow_fsync_keeps_no_append_waiting(tmp_path: Path) -> None:
    reason = why_no_strace()
    if reason:
        pytest.skip(reason)
    directory, trace, count = tmp_path / "data", tmp_path / "trace", 60
    log = directory / "slow-0" / LOG
    prefix = injecting(trace, [log], "fsync:delay_exit=300000")
    with FaultyBroker(tmp_path, {"log.dirs": str(directory)}, prefix) as broker, broker.connect() as client:
        create(client, "slow", directory, flush_ms="10")
        for number in range(count):
            assert produce(client, "slow", b"%d" % number) == error_codes.NONE
        becomes(lambda: bool(calls_on(trace, "fsync", log)), expected=True)
        assert len(calls_on(trace, "fsync", log)) < count / 2
        assert len(values(client, "slow")) == count


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """(the directory, the prefix of a command that sees a small file system there), in a mount namespace of its own."""
    with mounted(tmp_path / "small", SMALL_BYTES) as prefix:
        yield tmp_path / "small", prefix


def test_a_full_disk_is_reported_before_and_when_it_happens_and_loses_nothing(
    tmp_path: Path, small_disk: tuple[Path, list[str]]
) -> None:
    small, prefix = small_disk
    large = tmp_path / "large"
    dirs = {"log.dirs": f"{large},{small}"}
    acknowledged: list[bytes] = []
    with FaultyBroker(tmp_path / "first", dirs, prefix) as broker, broker.connect() as client:
        create(client, "safe", large)
        create(client, "full", small)
        while len(acknowledged) < 100:
            value = b"%d." % len(acknowledged) + os.urandom(50_000)
            code = produce(client, "full", value)
            if code != error_codes.NONE:
                assert code == OFFLINE
                break
            acknowledged.append(value)
            if len(acknowledged) == 25:
                assert "small" in doctors_warning(broker)
        assert 25 < len(acknowledged) < 60
        assert produce(client, "full", b"?") == OFFLINE
        assert produce(client, "safe", b"0") == error_codes.NONE
        assert directory_errors(client) == {"large": error_codes.NONE, "small": OFFLINE}
        assert (
            broker.log_text().count(f"log directory {small} is offline: No space left on device; the disk is full") == 1
        )
        broker.kill()
    with FaultyBroker(tmp_path / "second", dirs, prefix) as broker, broker.connect() as client:
        # As full as before; whether it can be opened or not, no answer says that something is there which is not.
        assert produce(client, "safe", b"1") == error_codes.NONE
        assert produce(client, "full", bytes(900_000)) == OFFLINE
    subprocess.run([*prefix, "mount", "-o", f"remount,size={2 * SMALL_BYTES}", str(small)], check=True)
    with FaultyBroker(tmp_path / "third", dirs, prefix) as broker, broker.connect() as client:
        assert values(client, "full") == acknowledged
        assert values(client, "safe") == [b"0", b"1"]
        assert produce(client, "full", b"room") == error_codes.NONE
    subprocess.run([*prefix, "mount", "-o", "remount,ro", str(small)], check=True)
    with FaultyBroker(tmp_path / "fourth", dirs, prefix) as broker, broker.connect() as client:
        assert produce(client, "safe", b"2") == error_codes.NONE
        assert produce(client, "full", b"read only") in (OFFLINE, error_codes.NOT_LEADER_OR_FOLLOWER)
        assert directory_errors(client) == {"large": error_codes.NONE, "small": OFFLINE}
        assert f"{small} is offline: Read-only file system (" in broker.log_text()


def leaders(client: RawClient, topics: Iterable[str]) -> dict[str | None, tuple[int, list[int]]]:
    """The leader of partition 0 of each topic, and which of its replicas are offline."""
    asked = [MetadataRequestTopic(name=name) for name in topics]
    answer = client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12)
    partitions = {each.name: each.partitions[0] for each in answer.topics}
    return {name: (each.leader_id, each.offline_replicas) for name, each in partitions.items()}


def doctors_warning(broker: FaultyBroker) -> str:
    """The warning of `kpybroker doctor` about disks that fill up."""
    command = [str(broker.path), "doctor", "--bootstrap-server", broker.bootstrap_servers, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    findings = json.loads(finished.stdout)
    found = findings if isinstance(findings, list) else findings["findings"]
    return str([each for each in found if "log directories" in str(each) and "free" in str(each)])


def test_a_node_starts_without_a_directory_that_is_none(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    dirs = {"log.dirs": f"{good},{bad}"}
    with FaultyBroker(tmp_path / "first", dirs) as broker, broker.connect() as client:
        create(client, "kept", good)
        create(client, "missed", bad)
        for name in ("kept", "missed"):
            assert produce(client, name, b"0") == error_codes.NONE
    aside = tmp_path / "aside"
    bad.rename(aside)
    bad.write_text("no directory")
    with FaultyBroker(tmp_path / "second", dirs) as broker, broker.connect() as client:
        assert produce(client, "kept", b"1") == error_codes.NONE
        assert produce(client, "missed", b"1") in (OFFLINE, error_codes.NOT_LEADER_OR_FOLLOWER)
        assert directory_errors(client) == {"good": error_codes.NONE, "bad": OFFLINE}
        assert f"the log directory {bad} cannot be used" in broker.log_text()
    bad.unlink()
    aside.rename(bad)
    with FaultyBroker(tmp_path / "third", dirs) as broker, broker.connect() as client:
        assert values(client, "missed") == [b"0"]
        assert values(client, "kept") == [b"0", b"1"]


def test_the_rest_of_a_short_write_is_ignored(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("safe", "short")}
    dirs = {"log.dirs": ",".join(map(str, places.values()))}
    prefix = [sys.executable, "-c", WITH_SHORT_FILES]
    acknowledged: list[bytes] = []
    with FaultyBroker(tmp_path / "first", dirs, prefix) as broker, broker.connect() as client:
        for name, path in places.items():
            create(client, name, path)
        while (code := produce(client, "short", value := os.urandom(70_000))) == error_codes.NONE:
            acknowledged.append(value)
        assert code == OFFLINE
        assert produce(client, "short", b"?") == OFFLINE
        assert produce(client, "safe", b"0") == error_codes.NONE
        assert directory_errors(client) == {"safe": error_codes.NONE, "short": OFFLINE}
        assert (
            broker.log_text().count(f"log directory {places['short']} is offline: File too large; raise the size") == 1
        )
        kept_bytes = (places["short"] / "short-0" / LOG).stat().st_size  # the kernel had taken a part of the last one
        assert LIMIT_BYTES - 71_000 < kept_bytes < LIMIT_BYTES
        broker.kill()
    with FaultyBroker(tmp_path / "second", dirs) as broker, broker.connect() as client:
        assert values(client, "short") == acknowledged
        assert produce(client, "short", b"on") == error_codes.NONE
        assert values(client, "short") == [*acknowledged, b"on"]
