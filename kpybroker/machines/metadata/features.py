"""The one table of the features that this version of kpybroker has, and of their levels.

``format`` finalises nothing else, a broker registers with nothing else, and a directory with other finalised features
in its log is refused in one line. A feature enters this table when it is complete, never before.
"""

from collections.abc import Mapping
from typing import Final

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.image import ELR_VERSION, KRAFT_VERSION

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION: Final = "streams.version"

SUPPORTED: Mapping[str, FeatureRange] = {
    metadata_version.FEATURE_NAME: FeatureRange(metadata_version.MINIMUM, metadata_version.LATEST),
    KRAFT_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELR_VERSION: FeatureRange(0, 1),
    GROUP_VERSION: FeatureRange(0, 1),
    SHARE_VERSION: FeatureRange(0, 2),
    STREAMS_VERSION: FeatureRange(0, 1),
}

SUPPORTED_LEVELS = {name: (levels.lowest, levels.highest) for name, levels in SUPPORTED.items()}

LOWEST_METADATA_VERSION_OF_KRAFT_VERSION_1 = 21
LOWEST_METADATA_VERSION_OF_TRANSACTION_VERSION_2 = 24
"""The lowest ``metadata.version`` of ``transaction.version`` 2, and of 1, which is therefore nowhere the default
(Kafka: ``TransactionVersion``)."""
LOWEST_METADATA_VERSION_OF_GROUP_VERSION_1 = 22
LOWEST_METADATA_VERSION_OF_STREAMS_VERSION_1 = 29
LOWEST_METADATA_VERSION_WITH_ELR_BY_DEFAULT = 26
LOWEST_METADATA_VERSION_OF_SHARE_VERSION_1 = 28
LOWEST_METADATA_VERSION_OF_SHARE_VERSION_2 = 31

SHARE_GROUPS: Final = 1
"""The level of ``share.version`` with share groups."""
DEAD_LETTERS: Final = 2
"""The level of ``share.version`` with dead-letter topics (KIP-1191)."""

DEPENDENCIES: Mapping[tuple[str, int], Mapping[str, int]] = {
    (ELR_VERSION, 1): {metadata_version.FEATURE_NAME: metadata_version.ELIGIBLE_LEADER_REPLICAS}
}
"""The lowest levels of other features that a level of a feature needs (``FeatureVersion.dependencies``)."""

NEVER_LOWERED = frozenset((metadata_version.FEATURE_NAME, KRAFT_VERSION))
"""The features that Kafka does not lower once a level has changed what the metadata log holds."""


def default_level(name: str, level: int) -> int:
    """The level at which ``format`` finalises a feature when ``metadata.version`` is ``level``."""
    if name == metadata_version.FEATURE_NAME:
        return level
    if name == TRANSACTION_VERSION:
        return 2 if level >= LOWEST_METADATA_VERSION_OF_TRANSACTION_VERSION_2 else 0
    if name == GROUP_VERSION:
        return int(level >= LOWEST_METADATA_VERSION_OF_GROUP_VERSION_1)
    if name == STREAMS_VERSION:
        return int(level >= LOWEST_METADATA_VERSION_OF_STREAMS_VERSION_1)
    if name == ELR_VERSION:
        return int(level >= LOWEST_METADATA_VERSION_WITH_ELR_BY_DEFAULT)
    if name == SHARE_VERSION:
        if level >= LOWEST_METADATA_VERSION_OF_SHARE_VERSION_2:
            return DEAD_LETTERS
        return SHARE_GROUPS if level >= LOWEST_METADATA_VERSION_OF_SHARE_VERSION_1 else 0
    return 1 if name == KRAFT_VERSION and level >= LOWEST_METADATA_VERSION_OF_KRAFT_VERSION_1 else 0


def unsupported(finalized: Mapping[str, int]) -> dict[str, int]:
    """The finalised features, with their levels, that this version does not have at that level."""
    return {name: level for name, level in finalized.items() if level not in SUPPORTED.get(name, FeatureRange(0, 0))}


def unmet_dependency(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Explain in Kafka's words (``Feature.validateVersion``) which feature a level depends on and which level that
    feature needs."""
    for needed, lowest in DEPENDENCIES.get((name, level), {}).items():
        if levels.get(needed, 0) < lowest:
            return f"{name} could not be set to {level} because it depends on {needed} level {lowest}"
    return None


def refusal(finalized: Mapping[str, int]) -> str | None:
    """One line that names the finalised features missing here; None if none is."""
    missing = unsupported(finalized)
    if not missing:
        return None
    listed = ", ".join(f"{name}={level}" for name, level in sorted(missing.items()))
    return f"kpybroker does not have these finalised features: {listed}."


def remedy(finalized: Mapping[str, int]) -> str:
    """One sentence: how a cluster of Apache Kafka lowers the finalised features that are missing here, if it can."""
    missing = unsupported(finalized)
    final = sorted(NEVER_LOWERED & missing.keys())
    if final:
        return (
            f"Apache Kafka never lowers {' and '.join(final)} as far, with --unsafe neither: this cluster stays with "
            "Apache Kafka, or with a version of kpybroker that has these levels"
        )
    levels = {name: SUPPORTED.get(name, FeatureRange(0, 0)).highest for name in missing}
    options = " ".join(f"--feature {name}={level}" for name, level in sorted(levels.items()))
    return f"Lower them with Apache Kafka first: kafka-features.sh --bootstrap-server HOST:PORT downgrade {options}"
