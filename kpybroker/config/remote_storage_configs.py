"""The configs of the store of tiered storage, by the names of Aiven's plugin and of Kafka's LocalTieredStorage.

In a file they begin with ``remote.log.storage.manager.impl.prefix``. Not here: their meaning (``remote_storage``).
"""

from typing import Final

from kpybroker.config.validators import HttpUrl, NonEmpty, at_least, between, list_of, one_of
from kpybroker.machines.config_def import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    ConfigKey,
    Definitions,
    define,
)

CUSTOM_FIELDS: Final = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
S3_STORAGE_CLASSES: Final = (
    *("STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE"),
    *("OUTPOSTS", "GLACIER_IR", "SNOW", "EXPRESS_ONEZONE", "FSX_OPENZFS", "FSX_ONTAP"),
)
_MIB: Final = 1 << 20

CHUNKED_CONFIGS: Final[Definitions] = define(
    (
        ConfigKey("chunk.size", INT, 4 * _MIB, HIGH, between(1, (1 << 30) - 1)),
        ConfigKey("storage.backend.class", CLASS, None, HIGH),
        ConfigKey("compression.enabled", BOOLEAN, False, HIGH),
        ConfigKey("compression.heuristic.enabled", BOOLEAN, False, HIGH),
        ConfigKey("encryption.enabled", BOOLEAN, False, HIGH),
        ConfigKey("encryption.key.pair.id", STRING, None, HIGH, NonEmpty()),
        ConfigKey("encryption.key.pairs", LIST, (), HIGH, list_of()),
        ConfigKey("key.prefix", STRING, "", HIGH),
        ConfigKey("custom.metadata.fields.include", LIST, (), LOW, list_of(*CUSTOM_FIELDS)),
        ConfigKey("segment.format", STRING, "kafka", MEDIUM, one_of("kafka", "iceberg")),
        ConfigKey("upload.rate.limit.bytes.per.second", INT, None, MEDIUM, between(_MIB, 10**9)),
        ConfigKey("fetch.manifest.cache.size", LONG, 1000, MEDIUM, at_least(-1)),
        ConfigKey("fetch.chunk.cache.class", CLASS, None, MEDIUM),
        ConfigKey("fetch.chunk.cache.path", STRING, None, HIGH, NonEmpty()),
        ConfigKey("fetch.chunk.cache.size", LONG, None, MEDIUM, at_least(-1)),
        ConfigKey("fetch.chunk.cache.retention.ms", LONG, 600_000, MEDIUM, at_least(-1)),
        ConfigKey("fetch.chunk.cache.prefetch.max.size", INT, 8 * _MIB, MEDIUM, between(0, INT_MAX)),
        ConfigKey("storage.root", STRING, None, HIGH, NonEmpty()),
        ConfigKey("storage.s3.bucket.name", STRING, None, HIGH, NonEmpty()),
        ConfigKey("storage.s3.region", STRING, None, MEDIUM, NonEmpty()),
        ConfigKey("storage.s3.endpoint.url", STRING, "", LOW, HttpUrl()),
        ConfigKey("storage.s3.path.style.access.enabled", BOOLEAN, None, LOW),
        ConfigKey("storage.s3.storage.class", STRING, "STANDARD", LOW, one_of(*S3_STORAGE_CLASSES)),
        ConfigKey("storage.s3.multipart.upload.part.size", INT, 8 * _MIB, MEDIUM, between(5 * _MIB, INT_MAX - 8)),
        ConfigKey("storage.s3.api.call.timeout", LONG, None, LOW, at_least(1)),
        ConfigKey("storage.s3.api.call.attempt.timeout", LONG, None, LOW, at_least(1)),
        ConfigKey("storage.aws.access.key.id", PASSWORD, None, MEDIUM),
        ConfigKey("storage.aws.secret.access.key", PASSWORD, None, MEDIUM),
        ConfigKey("storage.aws.session.token", PASSWORD, None, MEDIUM),
        ConfigKey("storage.aws.credentials.file", STRING, None, MEDIUM, NonEmpty()),
        ConfigKey("storage.aws.certificate.check.enabled", BOOLEAN, True, LOW),
        ConfigKey("storage.gcs.bucket.name", STRING, None, HIGH, NonEmpty()),
        ConfigKey("storage.gcs.endpoint.url", STRING, "", LOW, HttpUrl()),
        ConfigKey("storage.gcs.resumable.upload.chunk.size", INT, 8 * _MIB, MEDIUM, at_least(1 << 18)),
        ConfigKey("storage.gcs.credentials.json", PASSWORD, None, MEDIUM),
        ConfigKey("storage.gcs.credentials.path", STRING, None, MEDIUM, NonEmpty()),
        ConfigKey("storage.gcs.credentials.default", BOOLEAN, None, MEDIUM),
        ConfigKey("storage.azure.container.name", STRING, None, HIGH, NonEmpty()),
        ConfigKey("storage.azure.account.name", STRING, None, HIGH, NonEmpty()),
        ConfigKey("storage.azure.account.key", PASSWORD, None, MEDIUM),
        ConfigKey("storage.azure.sas.token", PASSWORD, None, MEDIUM),
        ConfigKey("storage.azure.connection.string", PASSWORD, None, MEDIUM),
        ConfigKey("storage.azure.endpoint.url", STRING, "", LOW, HttpUrl()),
        ConfigKey("storage.azure.upload.block.size", INT, 8 * _MIB, HIGH, at_least(102_400)),
    )
)
"""The configs in Aiven's layout. Defaults are Aiven's, but for part sizes, prefetching and ``chunk.size``."""

LOCAL_TIERED_CONFIGS: Final[Definitions] = define(
    (
        ConfigKey("dir", STRING, None, HIGH, NonEmpty()),
        ConfigKey("delete.enable", BOOLEAN, True, LOW),
    )
)
"""The configs of Kafka's LocalTieredStorage."""

WITHOUT_EFFECT: Final = (
    "delete.on.close",
    "fetch.chunk.cache.get.timeout.ms",
    "fetch.chunk.cache.thread.pool.size",
    "fetch.indexes.cache.get.timeout.ms",
    "fetch.indexes.cache.retention.ms",
    "fetch.indexes.cache.size",
    "fetch.indexes.cache.thread.pool.size",
    "fetch.manifest.cache.get.timeout.ms",
    "fetch.manifest.cache.retention.ms",
    "fetch.manifest.cache.thread.pool.size",
    "key.prefix.mask",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "storage.aws.checksum.check.enabled",
    "storage.aws.credentials.provider.class",
    "storage.overwrite.enabled",
    "storage.s3.legacy.md5.plugin.enabled",
    "transferer.class",
)
"""Known names that change nothing here: the cache of indexes is Kafka's (``remote.log.index.file.cache.*``), there are
few threads, and the usual chain of credentials needs no class."""
