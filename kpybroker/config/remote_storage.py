"""The settings of the store of tiered storage, read from a broker's configs. Pure: no store is opened.

The store is named by ``kpybroker.remote.store``, one URL, or by the configs of Aiven's plugin or of Kafka's
LocalTieredStorage, which one of the two by ``remote.log.storage.manager.class.name``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.config.own_configs import REMOTE_STORE
from kpybroker.config.refusals import shown_name
from kpybroker.config.remote_storage_configs import CHUNKED_CONFIGS, LOCAL_TIERED_CONFIGS, WITHOUT_EFFECT
from kpybroker.machines.config_def import ConfigError, Definitions, Password
from kpybroker.machines.names_nearby import nearby

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

CLASS_NAME: Final = "remote.log.storage.manager.class.name"
PREFIX: Final = "remote.log.storage.manager.impl.prefix"
AIVENS_CLASS: Final = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
LOCAL_TIERED_CLASS: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_BACKENDS: Final = {
    "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage": "file",
    "io.aiven.kafka.tieredstorage.storage.s3.S3Storage": "s3",
    "io.aiven.kafka.tieredstorage.storage.gcs.GcsStorage": "gs",
    "io.aiven.kafka.tieredstorage.storage.azure.AzureBlobStorage": "az",
}
_CHUNK_CACHES: Final = {
    "io.aiven.kafka.tieredstorage.fetch.cache.MemoryChunkCache": "memory",
    "io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache": "disk",
}
_KEY_PAIRS: Final = "encryption.key.pairs."
_PUBLIC, _PRIVATE = ".public.key.file", ".private.key.file"
_ICEBERGS: Final = ("iceberg.", "structure.provider.class")
_MEMORY_BYTES: Final = 64 << 20
_MOST_CACHED: Final = (1 << 63) - 1


class DirectoryPlace(NamedTuple):
    """A directory."""

    path: str
    is_made: bool = False
    """Whether it is made where it is missing."""


class MemoryPlace(NamedTuple):
    """The memory of the process, for tests: it ends with it."""


class S3Place(NamedTuple):
    """A bucket of S3, or of a server that speaks its protocol. Without credentials the usual chain has them."""

    bucket: str
    region: str | None
    endpoint: str
    is_path_style: bool | None
    access_key_id: Password | None
    secret_access_key: Password | None
    session_token: Password | None
    credentials_file: str | None
    checks_certificates: bool
    storage_class: str
    part_bytes: int
    timeout_ms: int | None
    attempt_timeout_ms: int | None


class GcsPlace(NamedTuple):
    """A bucket of Google Cloud Storage."""

    bucket: str
    endpoint: str
    credentials_json: Password | None
    credentials_file: str | None
    part_bytes: int


class AzurePlace(NamedTuple):
    """A container of Azure Blob Storage."""

    container: str
    account: str | None
    account_key: Password | None
    sas_token: Password | None
    endpoint: str
    part_bytes: int


Place = DirectoryPlace | MemoryPlace | S3Place | GcsPlace | AzurePlace


class KeyFiles(NamedTuple):
    """The PEM files of one RSA key."""

    public: str
    private: str


class EncryptionSettings(NamedTuple):
    """The keys under which the data keys of segments are kept; ``active`` is the one for new segments."""

    active: str
    pairs: Mapping[str, KeyFiles]


class ChunkCacheSettings(NamedTuple):
    """The caches of chunks. ``disk_path`` is None where there is none on a disk."""

    memory_bytes: int
    disk_path: str | None
    disk_bytes: int
    retention_ms: int
    """How long an unused chunk is kept; -1 for no limit."""
    prefetch_bytes: int


class ChunkedSettings(NamedTuple):
    """Aiven's layout."""

    place: Place
    key_prefix: str
    chunk_bytes: int
    compresses: bool
    leaves_compressed: bool
    """Whether segments whose first batch is compressed are stored as they are."""
    encryption: EncryptionSettings | None
    custom_fields: frozenset[str]
    cache: ChunkCacheSettings
    manifests: int
    upload_bytes_per_second: int | None
    without_effect: tuple[str, ...]


class LocalTieredSettings(NamedTuple):
    """The layout of Kafka's LocalTieredStorage."""

    place: DirectoryPlace
    deletes: bool
    without_effect: tuple[str, ...]


RemoteStorageSettings = ChunkedSettings | LocalTieredSettings


def read(config: "BrokerValues") -> RemoteStorageSettings:
    """The settings. Raises ConfigError, in one line, for what cannot be used."""
    name = config[CLASS_NAME] or AIVENS_CLASS
    if name not in (AIVENS_CLASS, LOCAL_TIERED_CLASS):
        hint = nearby((AIVENS_CLASS, LOCAL_TIERED_CLASS), name)
        raise ConfigError(f"{CLASS_NAME}: classes written in Java cannot be loaded; use {AIVENS_CLASS}{hint}")
    if name == LOCAL_TIERED_CLASS:
        return _local_tiered(_Configs(config, LOCAL_TIERED_CONFIGS))
    return _chunked(_Configs(config, CHUNKED_CONFIGS), config[REMOTE_STORE])


class _Configs:
    """The configs behind the prefix, typed, each known."""

    def __init__(self, config: "BrokerValues", known: Definitions) -> None:
        self.prefix = config[PREFIX]
        self._known = known
        self._set: dict[str, Any] = {}
        self.key_files: dict[str, str] = {}
        without_effect = []
        for full_name, text in config.originals.items():
            if not full_name.startswith(self.prefix):
                continue
            name = full_name.removeprefix(self.prefix)
            if name in known:
                self._set[name] = self._parsed(name, text)
            elif known is CHUNKED_CONFIGS and name.startswith(_KEY_PAIRS) and name.endswith((_PUBLIC, _PRIVATE)):
                self.key_files[name] = text
            elif name in WITHOUT_EFFECT or name.startswith(_ICEBERGS):
                without_effect.append(full_name)
            else:
                self._refuse(full_name, name)
        self.without_effect = tuple(sorted(without_effect))

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else self._known[name].default

    def is_set(self, name: str) -> bool:
        return name in self._set

    def needed(self, name: str, why: str) -> Any:
        """The value of a config. ConfigError if it is not set."""
        if not self[name]:
            raise ConfigError(f"{self.prefix}{name} is missing: {why}")
        return self[name]

    def error(self, name: str, why: str) -> ConfigError:
        return ConfigError(f"{self.prefix}{name}: {why}")

    def _parsed(self, name: str, text: str) -> Any:
        try:
            return self._known[name].parse(text)
        except ConfigError as error:
            raise ConfigError(error.message.replace(name, f"{self.prefix}{name}", 1)) from None

    def _refuse(self, full_name: str, name: str) -> None:
        other = LOCAL_TIERED_CONFIGS if self._known is CHUNKED_CONFIGS else CHUNKED_CONFIGS
        if name in other:
            of = LOCAL_TIERED_CLASS if other is LOCAL_TIERED_CONFIGS else AIVENS_CLASS
            raise ConfigError(f"{full_name} is a config of {of}; set {CLASS_NAME} to it, or remove {full_name}")
        raise ConfigError(f"{shown_name(full_name)} is not a config of the store{nearby(self._known, name)}")


def _local_tiered(configs: _Configs) -> LocalTieredSettings:
    path = configs.needed("dir", "it names the directory of the store")
    return LocalTieredSettings(DirectoryPlace(path, is_made=True), configs["delete.enable"], configs.without_effect)


def _chunked(configs: _Configs, url: str) -> ChunkedSettings:
    if configs["segment.format"] != "kafka":
        raise configs.error("segment.format", "segments are stored in Kafka's format here; remove it")
    place, prefix = _place_of_url(configs, url) if url else (_place_of_class(configs), "")
    prefix += configs["key.prefix"]
    _check_prefix(configs, prefix)
    return ChunkedSettings(
        place=place,
        key_prefix=prefix,
        chunk_bytes=configs["chunk.size"],
        compresses=configs["compression.enabled"],
        leaves_compressed=configs["compression.heuristic.enabled"],
        encryption=_encryption(configs),
        custom_fields=frozenset(configs["custom.metadata.fields.include"]),
        cache=_cache(configs),
        manifests=_bound(configs["fetch.manifest.cache.size"]),
        upload_bytes_per_second=configs["upload.rate.limit.bytes.per.second"],
        without_effect=configs.without_effect,
    )


def _bound(limit: int) -> int:
    return _MOST_CACHED if limit < 0 else limit


def _check_prefix(configs: _Configs, prefix: str) -> None:
    """Refuse keys that stores do not keep as they are."""
    steps = prefix.split("/")[:-1]
    if "" in steps or any(set(step) <= {"."} for step in prefix.split("/") if step) or not prefix.isprintable():
        raise configs.error("key.prefix", f"{prefix[:100]!r} cannot begin a key: parts between slashes are names")


def _place_of_class(configs: _Configs) -> Place:
    name = configs["storage.backend.class"]
    if name is None:
        example = f"{REMOTE_STORE}=s3://bucket/prefix or file:///directory"
        raise ConfigError(f"tiered storage needs a store: set {example}, or {configs.prefix}storage.backend.class")
    if name not in _BACKENDS:
        known = ", ".join(_BACKENDS)
        raise configs.error("storage.backend.class", f"{name} is not known; use one of {known}")
    scheme = _BACKENDS[name]
    if scheme == "file":
        return DirectoryPlace(configs.needed("storage.root", "it names the directory of the store"))
    config_name = {
        "s3": "storage.s3.bucket.name",
        "gs": "storage.gcs.bucket.name",
        "az": "storage.azure.container.name",
    }
    return _place_of(configs, scheme, configs.needed(config_name[scheme], "it names the place of the segments"))


def _place_of_url(configs: _Configs, url: str) -> tuple[Place, str]:
    """The place, and the prefix of all keys there."""
    if configs.is_set("storage.backend.class"):
        raise ConfigError(f"{REMOTE_STORE} and {configs.prefix}storage.backend.class both name a store; remove one")
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and rest.strip("/") == "":
        return MemoryPlace(), ""
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if not colon or not rest.startswith("//") or scheme not in ("file", "s3", "gs", "az"):
        forms = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, file:///directory or memory:"
        raise ConfigError(f"{REMOTE_STORE} must be {forms}")
    if "@" in bucket or "?" in rest or "#" in rest:
        raise ConfigError(f"{REMOTE_STORE} holds no login and no options; set {configs.prefix}storage.* for them")
    if scheme == "file":
        if bucket or not prefix:
            raise ConfigError(f"{REMOTE_STORE} must name a whole path, as in file:///directory")
        return DirectoryPlace(f"/{prefix}"), ""
    if not bucket:
        raise ConfigError(f"{REMOTE_STORE} must name a bucket, as in {scheme}://bucket/prefix")
    prefix = prefix.strip("/")
    return _place_of(configs, scheme, bucket), f"{prefix}/" if prefix else ""


def _place_of(configs: _Configs, scheme: str, bucket: str) -> Place:
    if scheme == "s3":
        return _s3(configs, bucket)
    if scheme == "gs":
        return _gcs(configs, bucket)
    return _azure(configs, bucket)


def _s3(configs: _Configs, bucket: str) -> S3Place:
    key_id, secret = configs["storage.aws.access.key.id"], configs["storage.aws.secret.access.key"]
    if (key_id is None) != (secret is None):
        raise configs.error("storage.aws.access.key.id", "it goes with storage.aws.secret.access.key; set both or none")
    file = configs["storage.aws.credentials.file"]
    if file is not None and key_id is not None:
        raise configs.error("storage.aws.credentials.file", "credentials are set twice; remove the file or the keys")
    return S3Place(
        bucket=bucket,
        region=configs["storage.s3.region"],
        endpoint=configs["storage.s3.endpoint.url"],
        is_path_style=configs["storage.s3.path.style.access.enabled"],
        access_key_id=key_id,
        secret_access_key=secret,
        session_token=configs["storage.aws.session.token"],
        credentials_file=file,
        checks_certificates=configs["storage.aws.certificate.check.enabled"],
        storage_class=configs["storage.s3.storage.class"],
        part_bytes=configs["storage.s3.multipart.upload.part.size"],
        timeout_ms=configs["storage.s3.api.call.timeout"],
        attempt_timeout_ms=configs["storage.s3.api.call.attempt.timeout"],
    )


def _gcs(configs: _Configs, bucket: str) -> GcsPlace:
    names = [each for each in ("json", "path", "default") if configs[f"storage.gcs.credentials.{each}"]]
    if len(names) > 1:
        raise configs.error(f"storage.gcs.credentials.{names[0]}", f"set only one of credentials.{', '.join(names)}")
    return GcsPlace(
        bucket=bucket,
        endpoint=configs["storage.gcs.endpoint.url"],
        credentials_json=configs["storage.gcs.credentials.json"],
        credentials_file=configs["storage.gcs.credentials.path"],
        part_bytes=configs["storage.gcs.resumable.upload.chunk.size"],
    )


def _azure(configs: _Configs, container: str) -> AzurePlace:
    account, key = configs["storage.azure.account.name"], configs["storage.azure.account.key"]
    endpoint, token = configs["storage.azure.endpoint.url"], configs["storage.azure.sas.token"]
    connection = configs["storage.azure.connection.string"]
    if connection is not None:
        if account or key or endpoint:
            raise configs.error(
                "storage.azure.connection.string", "it has account, key and endpoint; remove the others"
            )
        parts = dict(part.partition("=")[::2] for part in connection.value.split(";") if part)
        account, endpoint = parts.get("AccountName"), parts.get("BlobEndpoint", "")
        key, token = _secret(parts.get("AccountKey")), token or _secret(parts.get("SharedAccessSignature"))
        if account is None:
            raise configs.error("storage.azure.connection.string", "it has no AccountName")
    part_bytes = configs["storage.azure.upload.block.size"]
    return AzurePlace(container, account, key, token, endpoint, part_bytes)


def _secret(text: str | None) -> Password | None:
    return None if text is None else Password(text)


def _encryption(configs: _Configs) -> EncryptionSettings | None:
    if not configs["encryption.enabled"]:
        return None
    active = configs.needed("encryption.key.pair.id", "it names the key for new segments")
    names = configs["encryption.key.pairs"]
    if active not in names:
        raise configs.error("encryption.key.pair.id", f"{active} is not in encryption.key.pairs")
    pairs = {}
    for name in names:
        files = [configs.key_files.get(f"{_KEY_PAIRS}{name}{suffix}") for suffix in (_PUBLIC, _PRIVATE)]
        for suffix, file in zip((_PUBLIC, _PRIVATE), files, strict=True):
            if not file:
                raise ConfigError(f"{configs.prefix}{_KEY_PAIRS}{name}{suffix} is missing: it names the file of a key")
        pairs[name] = KeyFiles(files[0] or "", files[1] or "")
    return EncryptionSettings(active, pairs)


def _cache(configs: _Configs) -> ChunkCacheSettings:
    name = configs["fetch.chunk.cache.class"]
    if name is not None and name not in _CHUNK_CACHES:
        raise configs.error("fetch.chunk.cache.class", f"{name} is not known; use one of {', '.join(_CHUNK_CACHES)}")
    is_on_disk = name is not None and _CHUNK_CACHES[name] == "disk"
    size = configs["fetch.chunk.cache.size"]
    if name is not None and size is None:
        raise ConfigError(f"{configs.prefix}fetch.chunk.cache.size is missing: it bounds the cache, in bytes")
    path = configs.needed("fetch.chunk.cache.path", "it names the directory of the cache") if is_on_disk else None
    return ChunkCacheSettings(
        memory_bytes=_MEMORY_BYTES if is_on_disk or size is None else _bound(size),
        disk_path=path,
        disk_bytes=_bound(size) if is_on_disk else 0,
        retention_ms=configs["fetch.chunk.cache.retention.ms"],
        prefetch_bytes=configs["fetch.chunk.cache.prefetch.max.size"],
    )
