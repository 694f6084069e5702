"""A cleaner whose disk really fails or is full: its log stays as it was, readers find all of it, one line says why."""

import os
import subprocess
from pathlib import Path

import pytest
from faulty_broker import FaultyBroker, create, directory_errors, injecting, produce_keyed, values, why_no_strace
from small_disk import mounted

from kpywire import error_codes
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.raw_client import RawClient
from support.waiting import becomes

pytestmark = pytest.mark.slow
PATIENCE_S = 120
VALUE_BYTES = 300_000
"""Three records fill a segment."""
FAST = {"log.cleaner.backoff.ms": "50"}
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": str(1 << 20)}
NEVER, AT_ONCE = "1.0", "0.01"
ROOM_BYTES = 5 << 20
TOPIC, SET = 2, 0


def fill(client: RawClient, topic: str, directory: Path, ratio: str) -> list[bytes]:
    """Twelve records, of which three have the same key."""
    create(client, topic, directory, min_cleanable_dirty_ratio=ratio, **COMPACTED)
    written = []
    for number in range(12):
        value = b"%d " % number + os.urandom(VALUE_BYTES)
        assert produce_keyed(client, topic, b"%d" % max(number, 2), value) == error_codes.NONE
        written.append(value)
    return written


def begin_compacting(client: RawClient, topic: str) -> None:
    ratio = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=SET, value=AT_ONCE)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[ratio])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert answer.responses[0].error_code == error_codes.NONE


def left_behind(partition: Path) -> list[str]:
    return sorted(each.name for each in partition.glob("*") if each.suffix in (".cleaned", ".swap"))


@pytest.mark.parametrize(("suffix", "fault"), [("", "pread64:error=EIO"), (".cleaned", "fsync:error=EIO")])
def test_a_cleaner_that_cannot_read_or_write_takes_its_directory_offline_alone(
    tmp_path: Path, suffix: str, fault: str
) -> None:
    reason = why_no_strace()
    if reason:
        pytest.skip(reason)
    places = {name: tmp_path / name for name in ("good", "bad")}
    dirs = {"log.dirs": ",".join(map(str, places.values())), **FAST}
    # The broker itself has no reason to read what it has just written.
    prefix = injecting(tmp_path / "trace", [places["bad"] / "bad-0" / f"{0:020d}.log{suffix}"], fault)
    written = {}
    with FaultyBroker(tmp_path / "first", dirs, prefix) as broker, broker.connect() as client:
        for name, path in places.items():
            written[name] = fill(client, name, path, AT_ONCE)
        offline = {"good": error_codes.NONE, "bad": error_codes.KAFKA_STORAGE_ERROR}
        becomes(lambda: directory_errors(client), offline, PATIENCE_S)
        becomes(lambda: "Compacted good-0" in broker.log_text(), True, PATIENCE_S)
        assert values(client, "good")[-9:] == written["good"][-9:]
        log_text = broker.log_text()
        broker.kill()
    assert "Traceback" not in log_text
    assert log_text.count(f"log directory {places['bad']} is offline: Input/output error") == 1
    with FaultyBroker(tmp_path / "second", dirs) as broker, broker.connect() as client:
        assert values(client, "bad")[-9:] == written["bad"][-9:]
        becomes(lambda: "bad 0 " in checkpoint(places["bad"]), True, PATIENCE_S)
        assert values(client, "bad") == written["bad"][2:]
        assert left_behind(places["bad"] / "bad-0") == []


def checkpoint(directory: Path) -> str:
    path = directory / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def test_without_room_a_log_stays_as_it_was_and_its_directory_online(tmp_path: Path) -> None:
    small = tmp_path / "small"
    with mounted(small, ROOM_BYTES) as prefix:
        properties = {"log.dirs": str(small), **FAST}
        with FaultyBroker(tmp_path / "first", properties, prefix) as broker, broker.connect() as client:
            written = fill(client, "full", small, NEVER)
            begin_compacting(client, "full")
            becomes(lambda: "cannot be compacted" in broker.log_text(), True, PATIENCE_S)
            assert (
                "full-0 cannot be compacted and is left as it is for 10 minutes: No space left on device"
                in broker.log_text()
            )
            assert values(client, "full")[-9:] == written[-9:]
            assert produce_keyed(client, "full", b"more", b"12") == error_codes.NONE
            assert directory_errors(client) == {"small": error_codes.NONE}
            listed = subprocess.run([*prefix, "ls", str(small / "full-0")], capture_output=True, text=True, check=True)
            assert ".cleaned" not in listed.stdout
        subprocess.run([*prefix, "mount", "-o", f"remount,size={3 * ROOM_BYTES}", str(small)], check=True)
        with FaultyBroker(tmp_path / "second", properties, prefix) as broker, broker.connect() as client:
            becomes(lambda: "Compacted full-0" in broker.log_text(), True, PATIENCE_S)
            assert values(client, "full") == [*written[2:], b"12"]
