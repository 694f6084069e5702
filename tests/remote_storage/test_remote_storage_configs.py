"""The configs of the store: Aiven's names, our short form, what is refused with one line, and secrets."""

import logging
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kpybroker.cli.exposed_files import secrets_in
from kpybroker.cli.redaction import Redactor
from kpybroker.config import describe
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.remote_storage import (
    AIVENS_CLASS,
    CLASS_NAME,
    LOCAL_TIERED_CLASS,
    AzurePlace,
    ChunkedSettings,
    DirectoryPlace,
    GcsPlace,
    LocalTieredSettings,
    MemoryPlace,
    S3Place,
    read,
)
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage
from kpybroker.hosts.remote_log.stores import build
from kpybroker.machines.config_def import ConfigError

AIVENS = "io.aiven.kafka.tieredstorage."
BACKENDS = {
    "file": "storage.filesystem.FileSystemStorage",
    "s3": "storage.s3.S3Storage",
    "gs": "storage.gcs.GcsStorage",
    "az": "storage.azure.AzureBlobStorage",
}
SECRET = "a-secret-that-is-long"


def config_of(configs: dict[str, str]) -> BrokerConfig:
    return BrokerConfig(
        {name if "." in name and name in KEPT else f"rsm.config.{name}": text for name, text in configs.items()}
    )


KEPT = (CLASS_NAME, "kpybroker.remote.store", "remote.log.storage.manager.impl.prefix")


def settings_of(configs: dict[str, str]) -> ChunkedSettings:
    settings = read(config_of(configs))
    assert isinstance(settings, ChunkedSettings)
    return settings


def backend(name: str) -> dict[str, str]:
    return {"storage.backend.class": AIVENS + BACKENDS[name]}


def test_the_example_of_aivens_document_is_read() -> None:
    settings = settings_of(
        {
            CLASS_NAME: AIVENS_CLASS,
            **backend("gs"),
            "chunk.size": "4194304",
            "storage.gcs.bucket.name": "my-bucket",
            "storage.gcs.credentials.default": "true",
            "fetch.chunk.cache.class": f"{AIVENS}fetch.cache.DiskChunkCache",
            "fetch.chunk.cache.path": "/cache/of/chunks",
            "fetch.chunk.cache.size": "17179869184",
            "fetch.chunk.cache.prefetch.max.size": "16777216",
            "fetch.chunk.cache.retention.ms": "600000",
            "upload.rate.limit.bytes.per.second": "104857600",
        }
    )
    assert settings.place == GcsPlace("my-bucket", "", None, None, 8 << 20)
    assert settings.chunk_bytes == 4 << 20
    assert settings.cache.disk_path == "/cache/of/chunks"
    assert (settings.cache.disk_bytes, settings.cache.prefetch_bytes) == (16 << 30, 16 << 20)
    assert settings.upload_bytes_per_second == 100 << 20
    assert settings.without_effect == ()


@pytest.mark.parametrize(
    ("url", "place", "prefix"),
    [
        ("file:///data/tiers", DirectoryPlace("/data/tiers"), ""),
        ("memory:", MemoryPlace(), ""),
        ("gs://bucket", GcsPlace("bucket", "", None, None, 8 << 20), ""),
        ("gs://bucket/a/b/", GcsPlace("bucket", "", None, None, 8 << 20), "a/b/"),
        ("az://box/a", AzurePlace("box", None, None, None, "", 8 << 20), "a/"),
    ],
)
def test_one_url_names_a_store(url: str, place: object, prefix: str) -> None:
    settings = settings_of({"kpybroker.remote.store": url})
    assert (settings.place, settings.key_prefix) == (place, prefix)


def test_s3_is_named_by_a_url_or_by_aivens_names() -> None:
    common = {"storage.s3.region": "eu-north-1", "storage.s3.endpoint.url": "http://127.0.0.1:9000", "key.prefix": "x/"}
    by_url = settings_of({"kpybroker.remote.store": "s3://bucket/p", **common})
    by_names = settings_of({**backend("s3"), "storage.s3.bucket.name": "bucket", **common})
    assert by_url.place == by_names.place
    assert isinstance(by_url.place, S3Place)
    assert (by_url.place.bucket, by_url.place.region, by_url.place.is_path_style) == ("bucket", "eu-north-1", None)
    assert (by_url.key_prefix, by_names.key_prefix) == ("p/x/", "x/")


def test_a_connection_string_of_azure_is_taken_apart() -> None:
    text = f"DefaultEndpointsProtocol=https;AccountName=me;AccountKey={SECRET}==;BlobEndpoint=https://h/me"
    place = settings_of({"kpybroker.remote.store": "az://box", "storage.azure.connection.string": text}).place
    assert isinstance(place, AzurePlace)
    assert (place.account, place.endpoint) == ("me", "https://h/me")
    assert place.account_key is not None
    assert place.account_key.value == f"{SECRET}=="


def test_kafkas_local_tiered_storage_is_named_by_its_class() -> None:
    settings = read(config_of({CLASS_NAME: LOCAL_TIERED_CLASS, "dir": "/tiers", "delete.on.close": "false"}))
    assert settings == LocalTieredSettings(
        DirectoryPlace("/tiers", is_made=True), True, ("rsm.config.delete.on.close",)
    )


def test_the_prefix_of_configs_can_be_another() -> None:
    found = read(
        BrokerConfig(
            {
                "remote.log.storage.manager.impl.prefix": "mine.",
                "mine.storage.backend.class": AIVENS + BACKENDS["file"],
                "mine.storage.root": "/x",
            }
        )
    )
    assert found.place == DirectoryPlace("/x")


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({}, "tiered storage needs a store: set kpybroker.remote.store="),
        ({CLASS_NAME: "com.example.Mine"}, "classes written in Java cannot be loaded"),
        ({CLASS_NAME: LOCAL_TIERED_CLASS}, "rsm.config.dir is missing: it names the directory"),
        (
            {CLASS_NAME: LOCAL_TIERED_CLASS, "dir": "/x", "chunk.size": "5"},
            "rsm.config.chunk.size is a config of io.aiven",
        ),
        ({"kpybroker.remote.store": "memory:", "dir": "/x"}, "rsm.config.dir is a config of org.apache"),
        (
            {"kpybroker.remote.store": "memory:", "chunk.sizes": "5"},
            "is not a config of the store; did you mean chunk.size",
        ),
        ({"kpybroker.remote.store": "memory:", **backend("file")}, "both name a store; remove one"),
        ({"kpybroker.remote.store": "ftp://x/y"}, "kpybroker.remote.store must be s3://"),
        ({"kpybroker.remote.store": "bucket"}, "kpybroker.remote.store must be s3://"),
        ({"kpybroker.remote.store": "file://tiers"}, "must name a whole path"),
        ({"kpybroker.remote.store": "s3:///x"}, "must name a bucket, as in s3://"),
        ({"kpybroker.remote.store": f"s3://id:{SECRET}@bucket/x"}, "holds no login"),
        ({"kpybroker.remote.store": "s3://b//x"}, ""),
        ({"kpybroker.remote.store": "memory:", "key.prefix": "/x/"}, "rsm.config.key.prefix: '/x/' cannot begin a key"),
        ({"kpybroker.remote.store": "memory:", "key.prefix": "a/../x"}, "cannot begin a key"),
        ({"kpybroker.remote.store": "memory:", "chunk.size": "0"}, "rsm.config.chunk.size: Value must be at least 1"),
        ({"kpybroker.remote.store": "memory:", "segment.format": "iceberg"}, "Kafka's format here"),
        (
            {"kpybroker.remote.store": "memory:", "custom.metadata.fields.include": "SIZE"},
            "String must be one of: REMOTE_SIZE",
        ),
        ({"storage.backend.class": "S3Storage"}, "S3Storage is not known; use one of io.aiven"),
        (backend("file"), "rsm.config.storage.root is missing"),
        (backend("s3"), "rsm.config.storage.s3.bucket.name is missing"),
        ({"kpybroker.remote.store": "s3://b", "storage.aws.access.key.id": "x"}, "set both or none"),
        (
            {"kpybroker.remote.store": "s3://b", "storage.s3.endpoint.url": "host:9000"},
            "rsm.config.storage.s3.endpoint.url must be",
        ),
        (
            {"kpybroker.remote.store": "memory:", "encryption.enabled": "true"},
            "rsm.config.encryption.key.pair.id is missing",
        ),
        (
            {"kpybroker.remote.store": "memory:", "encryption.enabled": "true", "encryption.key.pair.id": "a"},
            "a is not in encryption.key.pairs",
        ),
        (
            {
                "kpybroker.remote.store": "memory:",
                "encryption.enabled": "true",
                "encryption.key.pair.id": "a",
                "encryption.key.pairs": "a",
                "encryption.key.pairs.a.public.key.file": "/x",
            },
            "rsm.config.encryption.key.pairs.a.private.key.file is missing",
        ),
        ({"kpybroker.remote.store": "memory:", "fetch.chunk.cache.class": "Mine"}, "Mine is not known"),
        (
            {"kpybroker.remote.store": "memory:", "fetch.chunk.cache.class": f"{AIVENS}fetch.cache.DiskChunkCache"},
            "rsm.config.fetch.chunk.cache.size is missing",
        ),
    ],
)
def test_configs_that_cannot_be_used_are_refused_in_one_line(configs: dict[str, str], words: str) -> None:
    if not words:
        assert settings_of(configs).key_prefix == "x/"
        return
    with pytest.raises(ConfigError) as raised:
        read(config_of(configs))
    assert words in raised.value.message
    assert "\n" not in raised.value.message
    assert SECRET not in raised.value.message


def test_known_names_without_effect_are_listed_and_not_refused() -> None:
    settings = settings_of({"kpybroker.remote.store": "memory:", "metrics.num.samples": "5", "iceberg.namespace": "x"})
    assert settings.without_effect == ("rsm.config.iceberg.namespace", "rsm.config.metrics.num.samples")
    assert not any("rsm.config" in each for each in config_of({"metrics.num.samples": "5"}).warnings)


# Secrets


SECRETS = {
    "rsm.config.storage.aws.secret.access.key": SECRET,
    "rsm.config.storage.azure.account.key": SECRET,
    "rsm.config.storage.gcs.credentials.json": SECRET,
    "rsm.config.storage.azure.sas.token": SECRET,
    "rsm.config.storage.aws.access.key.id": SECRET,
}


def test_secrets_of_stores_are_not_described_nor_in_a_bug_report() -> None:
    config = BrokerConfig(SECRETS)
    for name in SECRETS:
        entry = describe._broker_entry(name, SECRET, config, describe._no_documentation)
        assert entry.value is None
        assert entry.is_sensitive
        assert all(each.value is None for each in entry.synonyms)
    redactor = Redactor()
    assert set(redactor.configs(SECRETS).values()) == {"[hidden]"}
    assert SECRET not in redactor.text(f"cannot reach it with {SECRET} or {SECRET[:-3]}")
    place = settings_of(
        {
            "kpybroker.remote.store": "s3://b",
            "storage.aws.access.key.id": SECRET,
            "storage.aws.secret.access.key": SECRET,
        }
    )
    assert SECRET not in repr(place)


def test_files_with_secrets_of_stores_are_watched() -> None:
    found = secrets_in("p", {**SECRETS, "rsm.config.encryption.key.pairs.a.private.key.file": "/key.pem"})
    assert "/key.pem" in found
    assert "secret.access.key" in found["p"]


# Made


def built(configs: dict[str, str], directory: str | None = None) -> RemoteStorage:
    config = config_of(configs)
    return build(config, lambda: config, directory)


def test_a_store_is_made_and_checked(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    storage = built({"kpybroker.remote.store": f"file://{tmp_path}/store"}, str(tmp_path))
    storage.check()
    assert not list(storage.listed())
    storage.close()
    local = built({CLASS_NAME: LOCAL_TIERED_CLASS, "dir": f"{tmp_path}/made"})
    local.check()
    local.close()


def test_an_encrypted_store_needs_its_key_files(tmp_path: Path) -> None:
    private = rsa.generate_private_key(65537, 2048)
    pem = serialization.Encoding.PEM
    closed = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "public.pem").write_bytes(
        private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    configs = {
        "kpybroker.remote.store": "memory:",
        "encryption.enabled": "true",
        "encryption.key.pair.id": "a",
        "encryption.key.pairs": "a",
        "encryption.key.pairs.a.public.key.file": f"{tmp_path}/public.pem",
        "encryption.key.pairs.a.private.key.file": f"{tmp_path}/private.pem",
    }
    with pytest.raises(StartRefused, match=r"private\.pem: No such file"):
        built(configs)
    (tmp_path / "private.pem").write_bytes(b"no key")
    with pytest.raises(StartRefused, match="are no PEM files of a key pair"):
        built(configs)
    (tmp_path / "private.pem").write_bytes(closed)
    built(configs)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StartRefused, match=r"s3://b needs the library obstore: pip install 'kpybroker\[remote\]'"):
        built({"kpybroker.remote.store": "s3://b"})


def test_a_cache_that_cannot_be_made_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="file/kpybroker-chunks: Not a directory"):
        built(
            {
                "kpybroker.remote.store": "memory:",
                "fetch.chunk.cache.class": f"{AIVENS}fetch.cache.DiskChunkCache",
                "fetch.chunk.cache.path": f"{tmp_path}/file",
                "fetch.chunk.cache.size": "1000",
            }
        )


def test_configs_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        built({"kpybroker.remote.store": "memory:", "metrics.num.samples": "5"})
    assert "without effect: rsm.config.metrics.num.samples" in caplog.text
    assert "memory:" in caplog.text
