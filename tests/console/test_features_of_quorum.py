"""The features on the page of the quorum: levels that every node supports, upgrades, and warnings about lowering."""

from types import SimpleNamespace
from typing import Any

from kpybroker.machines.console.quorum import FeatureLevel, FeatureRow, features_of, warning_of
from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.features import SUPPORTED


def rows(*nodes: dict[str, FeatureRange], kraft_version: int = 1, **levels: int) -> dict[str, FeatureRow]:
    brokers = {number: SimpleNamespace(id=number, features=each) for number, each in enumerate(nodes, 1)}
    finalized = {name.replace("_", "."): level for name, level in levels.items()}
    image: Any = SimpleNamespace(brokers=brokers, controllers={}, finalized_features=finalized)
    return {each.name: each for each in features_of(image, kraft_version)}


def test_an_upgrade_is_offered_as_far_as_every_node_supports_it() -> None:
    older = {**SUPPORTED, "share.version": FeatureRange(0, 1), "metadata.version": FeatureRange(7, 30)}
    found = rows(dict(SUPPORTED), older, share_version=1, metadata_version=27)
    assert found["share.version"].now == FeatureLevel(1, "1")
    assert found["share.version"].upgrade is None
    assert found["share.version"].limit == "broker 2 supports no level above 1"
    level = found["metadata.version"]
    assert (level.now, level.upgrade) == (FeatureLevel(27, "4.1-IV1"), FeatureLevel(30, "4.3-IV0"))
    assert level.supported == (FeatureLevel(7, "3.3-IV3"), FeatureLevel(30, "4.3-IV0"))
    assert level.limit == "broker 2 supports no level above 4.3-IV0"


def test_a_feature_that_is_off_is_listed_with_its_upgrade() -> None:
    found = rows(dict(SUPPORTED), metadata_version=33)
    assert found.keys() == SUPPORTED.keys()
    assert found["group.version"] == FeatureRow(
        "group.version",
        FeatureLevel(0, "0"),
        (FeatureLevel(0, "0"), FeatureLevel(1, "1")),
        FeatureLevel(1, "1"),
        "",
        is_lowered=False,
    )


def test_the_level_of_the_quorum_is_never_lowered() -> None:
    found = rows(dict(SUPPORTED), metadata_version=33, kraft_version=1, share_version=2)
    assert not found["kraft.version"].is_lowered
    assert found["metadata.version"].is_lowered
    assert rows(kraft_version=0)["kraft.version"].upgrade == FeatureLevel(1, "1")
    assert warning_of("metadata.version") == "Lowering is refused once the metadata hold what the lower level cannot."
    assert warning_of("share.version") == "Lowering is unsafe: what only the higher level knows is lost."


def test_a_node_without_a_feature_supports_it_at_level_0_alone() -> None:
    found = rows({"metadata.version": FeatureRange(7, 33)}, metadata_version=33, share_version=0)
    assert (found["share.version"].upgrade, found["share.version"].limit) == (
        None,
        "broker 1 supports no level above 0",
    )
