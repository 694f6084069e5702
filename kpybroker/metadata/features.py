"""Which features this version of kpybroker has, at which levels: the one table that decides.

``format`` finalises nothing else, a broker registers with nothing else, and a directory whose log finalised
something else is refused in one line. A feature enters this table when it is complete, never before.
"""

from collections.abc import Mapping

from kpybroker.metadata import metadata_version
from kpybroker.metadata.broker import FeatureRange
from kpybroker.metadata.image import KRAFT_VERSION

TRANSACTION_VERSION = "transaction.version"

SUPPORTED: Mapping[str, FeatureRange] = {
    metadata_version.FEATURE_NAME: FeatureRange(metadata_version.MINIMUM, metadata_version.LATEST),
    KRAFT_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}

KNOWN_TO_KAFKA: Mapping[str, FeatureRange] = {
    "eligible.leader.replicas.version": FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
}
"""The features of Apache Kafka 4.3 that are not complete here; at level 0 they are off, which is always all right."""

LOWEST_METADATA_VERSION_OF_KRAFT_VERSION_1 = 21
LOWEST_METADATA_VERSION_OF_TRANSACTION_VERSION_2 = 24
"""And of 1, which is therefore nowhere the default (Kafka: ``TransactionVersion``)."""


def default_level(name: str, level: int) -> int:
    """The level at which ``format`` finalises a feature when ``metadata.version`` is ``level``."""
    if name == metadata_version.FEATURE_NAME:
        return level
    if name == TRANSACTION_VERSION:
        return 2 if level >= LOWEST_METADATA_VERSION_OF_TRANSACTION_VERSION_2 else 0
    return 1 if name == KRAFT_VERSION and level >= LOWEST_METADATA_VERSION_OF_KRAFT_VERSION_1 else 0


def unsupported(finalized: Mapping[str, int]) -> dict[str, int]:
    """Those of the finalised features, with their levels, that this version does not have at that level."""
    return {name: level for name, level in finalized.items() if level not in SUPPORTED.get(name, FeatureRange(0, 0))}


def refusal(finalized: Mapping[str, int]) -> str | None:
    """One line that says which finalised features are missing here; None when none is."""
    missing = unsupported(finalized)
    if not missing:
        return None
    listed = ", ".join(f"{name}={level}" for name, level in sorted(missing.items()))
    return f"kpybroker does not have these finalised features: {listed}."


def remedy(finalized: Mapping[str, int]) -> str:
    """How a cluster of Apache Kafka lets go of the finalised features that are missing here, as one sentence."""
    levels = {name: SUPPORTED.get(name, FeatureRange(0, 0)).highest for name in unsupported(finalized)}
    options = " ".join(f"--feature {name}={level}" for name, level in sorted(levels.items()))
    return f"Turn them off with Apache Kafka first: kafka-features.sh --bootstrap-server HOST:PORT downgrade {options}"
