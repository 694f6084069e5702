"""The levels of features that somebody chooses: for new directories, or for a cluster that runs. Pure.

They are refused in the words of Kafka's ``StorageTool`` and ``FeatureCommand``.
"""

from collections.abc import Mapping, Sequence

from kpybroker.machines.metadata import features, metadata_version
from kpybroker.machines.metadata.image import KRAFT_VERSION


class FormatRefused(Exception):
    """Nothing was formatted or changed; the message is one line for the user."""


def choose_levels(release_version: str | None, chosen: Mapping[str, int], *, dynamic_quorum: bool) -> dict[str, int]:
    """Choose the level of every feature we have. Raises FormatRefused if ``chosen`` names a level that is not
    possible."""
    if metadata_version.FEATURE_NAME in chosen:
        if release_version is not None:
            raise FormatRefused(
                f"Use --release-version instead of --feature {metadata_version.FEATURE_NAME}=X to avoid ambiguity."
            )
        level = chosen[metadata_version.FEATURE_NAME]
        if level not in features.SUPPORTED[metadata_version.FEATURE_NAME]:
            lowest, highest = metadata_version.MINIMUM, metadata_version.LATEST
            raise FormatRefused(
                f"No MetadataVersion with feature level {level}. Valid feature levels are from {lowest} to {highest}."
            )
    else:
        level = metadata_version.LATEST if release_version is None else level_of_release(release_version)
    for name in chosen:
        if name not in features.SUPPORTED:
            known = ", ".join(sorted(features.SUPPORTED.keys() - {metadata_version.FEATURE_NAME}))
            raise FormatRefused(f"Unsupported feature: {name}. Supported features are: {known}")
        judged_elsewhere = name in (metadata_version.FEATURE_NAME, KRAFT_VERSION)
        if not judged_elsewhere and chosen[name] not in features.SUPPORTED[name]:
            raise FormatRefused(f"No feature:{name} with feature level {chosen[name]}")
    levels = {name: chosen.get(name, features.default_level(name, level)) for name in features.SUPPORTED}
    levels |= {metadata_version.FEATURE_NAME: level, KRAFT_VERSION: _kraft_level(chosen, dynamic_quorum=dynamic_quorum)}
    for name in sorted(levels):
        unmet = features.unmet_dependency(name, levels[name], levels)
        if unmet is not None:
            raise FormatRefused(unmet)
    return levels


def level_of_release(version: str) -> int:
    """The ``metadata.version`` of a release; raises FormatRefused."""
    try:
        return metadata_version.level_of(version)
    except ValueError as error:
        raise FormatRefused(str(error)) from None


def _kraft_level(chosen: Mapping[str, int], *, dynamic_quorum: bool) -> int:
    level = chosen.get(KRAFT_VERSION)
    if level == 0 and dynamic_quorum:
        raise FormatRefused(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing "
            "the --feature flag for kraft.version."
        )
    if level and not dynamic_quorum:
        raise FormatRefused(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers "
            "support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )
    return int(dynamic_quorum) if level is None else level


def parse_levels(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``name=level`` options. Raises FormatRefused in Kafka's words."""
    levels = {}
    for text in texts:
        name, separator, level = text.partition("=")
        if not separator:
            raise FormatRefused(f"Can't parse feature=level string {text}: equals sign not found.")
        try:
            levels[name.strip()] = int(level)
        except ValueError:
            reason = f"unable to parse {level.strip()} as a short."
            raise FormatRefused(f"Can't parse feature=level string {text}: {reason}") from None
    return levels
