"""Stores of objects: a directory, memory, and S3 by obstore against a server on this machine."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from stored_segments import NO_LIMITS, chunked, log_of, ranges, tiered

from kpybroker.config.remote_storage import S3Place
from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm
from kpybroker.hosts.remote_log.directory_store import PARTS, DirectoryStore
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.object_store import ObjectStore, check
from kpybroker.hosts.remote_log.obstore_store import CredentialsFile, ObstoreStore, open_s3
from kpybroker.hosts.remote_log.remote_storage import CopyLimits, CopyStopped, ObjectMissing, StoreAway, StoreRefuses
from kpybroker.machines.config_def import Password

PART_BYTES = 5 << 20
SECRET = "a-secret-of-forty-characters-0123456789A"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def place_of(endpoint: str, bucket: str = "tiers", **changes: Any) -> S3Place:
    place = S3Place(
        bucket=bucket,
        region="us-east-1",
        endpoint=endpoint,
        is_path_style=True,
        access_key_id=Password("an-id"),
        secret_access_key=Password(SECRET),
        session_token=None,
        credentials_file=None,
        checks_certificates=True,
        storage_class="STANDARD",
        part_bytes=PART_BYTES,
        timeout_ms=2000,
        attempt_timeout_ms=1000,
    )
    return place._replace(**changes)


def make_bucket(endpoint: str, bucket: str) -> None:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="an-id", aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket=bucket)


def uploads_left(endpoint: str, bucket: str) -> int:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="an-id", aws_secret_access_key=SECRET
    )
    return len(client.list_multipart_uploads(Bucket=bucket).get("Uploads", []))


@pytest.fixture(params=["directory", "memory", "obstore memory", "obstore directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    import obstore.store

    match request.param:
        case "directory":
            return DirectoryStore(str(tmp_path))
        case "memory":
            return MemoryStore()
        case "obstore memory":
            return ObstoreStore(obstore.store.MemoryStore(), "memory", PART_BYTES)
        case "obstore directory":
            return ObstoreStore(obstore.store.LocalStore(str(tmp_path)), "directory", PART_BYTES)
        case _:
            endpoint = request.getfixturevalue("s3")
            bucket = f"bucket{Random(str(tmp_path)).randrange(1 << 40)}"
            make_bucket(endpoint, bucket)
            return open_s3(place_of(endpoint, bucket))


def test_objects_are_written_read_listed_and_deleted(store: ObjectStore) -> None:
    check(store, "a/check")
    held = {f"{folder}/name-{number}": bytes((number,)) * number for folder in ("a", "a/b", "ab") for number in (1, 5)}
    for key, data in held.items():
        store.put(key, [data[:2], data[2:]] if len(data) > 2 else [data])
        assert bytes(store.get(key, 100)) == data
        assert store.size(key) == len(data)
    assert {each.key: each.size_bytes for each in store.listed("")} == {key: len(data) for key, data in held.items()}
    assert sorted(each.key for each in store.listed("a/b/")) == ["a/b/name-1", "a/b/name-5"]
    assert sorted(each.key for each in store.listed("a/n")) == ["a/name-1", "a/name-5"]
    assert bytes(store.get_range("a/name-5", 1, 3)) == b"\5\5"
    assert bytes(store.get_range("a/name-5", 3, 30)) == b"\5\5"
    assert [bytes(store.get_range("a/name-5", start, 30)) for start in (5, 7)] == [b"", b""]
    store.put("a/name-5", [b"new"])
    assert bytes(store.get("a/name-5", 3)) == b"new"
    with pytest.raises(StoreRefuses, match="more than 2"):
        store.get("a/name-5", 2)
    store.delete([*held, "a/never-there"])
    store.delete(["a/never-there"])
    assert not list(store.listed(""))
    for call in (lambda: store.get("a/x", 9), lambda: store.get_range("a/x", 0, 1), lambda: store.size("a/x")):
        with pytest.raises(ObjectMissing, match="a/x"):
            call()


def test_a_segment_of_several_parts_is_read_back(store: ObjectStore) -> None:
    log = Random(2).randbytes(2 * PART_BYTES + 12_345)
    it = tiered(log)
    form = ChunkedForm("some/prefix/", 1 << 20)
    chunked(store, form).copy(it.segment, it.files, NO_LIMITS)
    reader = chunked(store, form, memory_bytes=4 << 20)
    for start, end in ranges(Random(5), len(log), 3):
        assert reader.read(it.segment, start, end) == log[start:end]
    assert len(list(reader.listed())) == 3
    reader.delete(it.segment)
    assert not list(store.listed(""))


def test_a_copy_that_is_stopped_leaves_nothing(store: ObjectStore, request: pytest.FixtureRequest) -> None:
    it = tiered(bytes(4 * PART_BYTES))
    written: list[int] = []
    limits = CopyLimits(lambda: len(written) == 15, written.append)
    with pytest.raises(CopyStopped):
        chunked(store, ChunkedForm("", 1 << 20)).copy(it.segment, it.files, limits)
    assert not list(store.listed(""))
    if store.name.startswith("s3"):
        assert uploads_left(request.getfixturevalue("s3"), store.name.removeprefix("s3://")) == 0


def test_prefixes_with_unusual_characters_stay_what_they_are(store: ObjectStore) -> None:
    for prefix in ("a b+c/", "ä:=@/", "x~/", "p-", "100%/"):
        it = tiered(log_of(3000))
        storage = chunked(store, ChunkedForm(prefix, 1000))
        storage.copy(it.segment, it.files, NO_LIMITS)
        assert storage.read(it.segment, 0, 3000) == it.log[:3000]
        assert {each.key[: len(prefix)] for each in storage.listed()} == {prefix}
        storage.delete(it.segment)
        assert not list(store.listed(""))


# S3


def test_a_bucket_that_is_missing_is_refused(s3: str) -> None:
    store = open_s3(place_of(s3, "no-such-bucket"))
    for call in (
        lambda: check(store, "x"),
        lambda: store.get("x", 1),
        lambda: list(store.listed("")),
        lambda: store.delete(["x"]),
    ):
        with pytest.raises(StoreRefuses, match=r"s3://no-such-bucket: .*the bucket does not exist"):
            call()


def test_a_server_that_is_away_is_no_refusal_and_shows_no_secret() -> None:
    store = open_s3(place_of("http://127.0.0.1:9"))
    with pytest.raises(StoreAway) as raised:
        store.put("x", [b"x"])
    assert "s3://tiers: cannot write x" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(place_of("http://127.0.0.1:9"))


def test_storage_classes_are_set(s3: str) -> None:
    import boto3

    make_bucket(s3, "classes")
    open_s3(place_of(s3, "classes", storage_class="STANDARD_IA")).put("x", [b"x"])
    client = boto3.client(
        "s3", endpoint_url=s3, region_name="us-east-1", aws_access_key_id="an-id", aws_secret_access_key=SECRET
    )
    assert client.head_object(Bucket="classes", Key="x")["StorageClass"] == "STANDARD_IA"


def test_credentials_come_from_a_file(s3: str, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_access_key_id = an-id\naws_secret_access_key = {SECRET}\n")
    make_bucket(s3, "by-file")
    no_keys = {"access_key_id": None, "secret_access_key": None}
    check(open_s3(place_of(s3, "by-file", credentials_file=str(file), **no_keys)), "check")
    file.write_text("[default]\naws_access_key_id = an-id\n")
    with pytest.raises(StoreRefuses, match="no aws_access_key_id and aws_secret_access_key in its section default"):
        CredentialsFile(str(file))
    with pytest.raises(StoreRefuses, match="No such file"):
        CredentialsFile(str(tmp_path / "none"))


# A directory


def test_a_directory_that_is_missing_is_refused(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path / "none"))
    for call in (lambda: check(store, "x"), lambda: store.get("x", 1), lambda: list(store.listed(""))):
        with pytest.raises(StoreRefuses, match="there is no such directory; make it"):
            call()
    check(DirectoryStore(str(tmp_path / "none"), makes_root=True), "x")


def test_a_write_that_fails_leaves_the_old_object(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("a/b", [b"old"])

    def failing() -> Iterator[bytes]:
        yield b"new"
        raise KeyError

    with pytest.raises(KeyError):
        store.put("a/b", failing())
    assert bytes(store.get("a/b", 9)) == b"old"
    assert not list((tmp_path / PARTS).iterdir())


def test_pieces_of_killed_writes_are_not_listed_and_go_after_a_day(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("a", [b"x"])
    piece = tmp_path / PARTS / "piece"
    piece.write_bytes(b"?")
    store.close()
    assert piece.exists()
    assert [each.key for each in store.listed("")] == ["a"]
    os.utime(piece, (1, 1))
    store.close()
    assert not piece.exists()


def test_a_path_below_an_object_is_refused(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("a", [b"x"])
    with pytest.raises(StoreRefuses, match="cannot write a/b"):
        store.put("a/b", [b"x"])


def test_a_full_disk_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = DirectoryStore(str(tmp_path))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreAway, match="cannot write a: No space left on device"):
        store.put("a", [b"x"])


def test_directories_that_became_empty_are_removed(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("t/0/x", [b"x"])
    store.put("t/1/x", [b"x"])
    store.delete(["t/0/x"])
    assert sorted(each.name for each in (tmp_path / "t").iterdir()) == ["1"]
    store.delete(["t/1/x"])
    assert not (tmp_path / "t").exists()
    assert stat.S_ISDIR(tmp_path.stat().st_mode)
    store.put("t/1/x", [b"x"])
