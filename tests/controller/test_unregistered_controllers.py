"""A feature is not raised while a controller of the quorum may not support it."""

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.metadata import metadata_version
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def message_of(world: ControllerWorld) -> str | None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=metadata_version.LATEST, upgrade_type=1)
    answer = world.send(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update], validate_only=True))
    if answer.error_message:
        return str(answer.error_message)
    return next((each.error_message for each in answer.results if each.error_code), None)


@pytest.mark.parametrize(("voters", "missing"), [((), None), ((1,), None), ((1, 2), 2), ((3, 1), 3)])
def test_every_other_controller_of_the_configuration_has_to_be_registered(
    voters: tuple[int, ...], missing: int | None
) -> None:
    world = ControllerWorld(metadata_version.LATEST - 1, configured_voters=voters).start_brokers(1)
    message = message_of(world)
    if missing is None:
        assert message is None
    else:
        assert f"controller {missing} has not registered" in str(message)
