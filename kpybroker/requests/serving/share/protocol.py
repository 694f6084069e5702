"""Whether share groups are finalised, and so served (Kafka: ``isShareGroupProtocolEnabled``)."""

from typing import Final

from kpybroker.machines.metadata.features import SHARE_VERSION
from kpybroker.requests.serving.context import Context

LONGEST_MEMBER_ID: Final = 36


def serves_share_groups(broker: Context) -> bool:
    """Whether ``share.version`` is at level 1."""
    return broker.image.features.get(SHARE_VERSION, 0) >= 1


def is_member_id(text: str | None) -> bool:
    """Whether a text may be the id of a member of a share group: not longer than a UUID in its usual notation."""
    return text is not None and 0 < len(text) <= LONGEST_MEMBER_ID
