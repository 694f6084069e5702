"""The levels of the feature ``metadata.version``, and what each one allows in the metadata log.

Facts of Kafka 4.4.0's ``MetadataVersion``: the level of each release, whether the format of the records changed with
it, and which versions of the records a controller at that level writes. The list of supported levels is not here but in
``kpybroker.machines.metadata.features``.
"""

from typing import Final, NamedTuple

FEATURE_NAME: Final = "metadata.version"


class MetadataVersion(NamedTuple):
    """One level of ``metadata.version``."""

    level: int
    version: str
    metadata_changed: bool


VERSIONS = tuple(
    MetadataVersion(level, version, level in {7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
    for level, version in enumerate(
        [
            "3.3-IV3",
            "3.4-IV0",
            "3.5-IV0",
            "3.5-IV1",
            "3.5-IV2",
            "3.6-IV0",
            "3.6-IV1",
            "3.6-IV2",
            "3.7-IV0",
            "3.7-IV1",
            "3.7-IV2",
            "3.7-IV3",
            "3.7-IV4",
            "3.8-IV0",
            "3.9-IV0",
            "4.0-IV0",
            "4.0-IV1",
            "4.0-IV2",
            "4.0-IV3",
            "4.1-IV0",
            "4.1-IV1",
            "4.2-IV0",
            "4.2-IV1",
            "4.3-IV0",
            "4.4-IV0",
            "4.4-IV1",
            "4.4-IV2",
        ],
        start=7,
    )
)

MINIMUM = VERSIONS[0].level
LATEST = VERSIONS[-1].level

SCRAM: Final = 11
ISR_SHRINK_KEEPS_LEADER_EPOCH: Final = 12
TRANSACTIONS = 13
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORY_ASSIGNMENT: Final = 17
ELIGIBLE_LEADER_REPLICAS = 23
CORDONED_LOG_DIRS = 30
ONE_BOOTSTRAP: Final = 31
"""From this level on no Kafka before 4.4 opens a directory, so that it is formatted as by 4.4 (KIP-1170)."""
NETWORKS_IN_ACLS: Final = 32
UNREGISTERED_CONTROLLERS: Final = 33


def name_of(level: int) -> str:
    """Kafka's name of a level, such as ``4.4-IV2``. Raises KeyError for a level that has no name."""
    if not MINIMUM <= level <= LATEST:
        raise KeyError(level)
    return VERSIONS[level - MINIMUM].version


def level_of(text: str) -> int:
    """The level of a release (``4.4``, ``4.4.0``) or a version (``4.4-IV2``). Raises ValueError in Kafka's words."""
    release = ".".join(text.split(".")[:2])
    named = {version.version: version.level for version in VERSIONS}
    named.update({version.version.split("-")[0]: version.level for version in VERSIONS})
    level = named.get(release)
    if level is None:
        supported = ", ".join(version.version for version in VERSIONS)
        raise ValueError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {supported}")
    return level


def metadata_changes_between(one: int, other: int) -> bool:
    """Whether the format of the records changes anywhere between two levels (``checkIfMetadataChanged``)."""
    low, high = sorted((one, other))
    return any(version.metadata_changed for version in VERSIONS if low < version.level <= high)


def register_broker_record_version(level: int) -> int:
    """The version in which a controller at this level writes RegisterBrokerRecord."""
    if level >= CORDONED_LOG_DIRS:
        return 4
    if level >= DIRECTORY_ASSIGNMENT:
        return 3
    return 2 if level >= 8 else 1


def partition_record_version(level: int) -> int:
    """The version in which a controller at this level writes PartitionRecord and PartitionChangeRecord."""
    if level >= ELIGIBLE_LEADER_REPLICAS:
        return 2
    return 1 if level >= DIRECTORY_ASSIGNMENT else 0


def fetch_request_version(level: int) -> int:
    """The version of Fetch that followers of a cluster at this level send."""
    for lowest, version in ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14)):
        if level >= lowest:
            return version
    return 13
