"""Record 23 with one field more than Kafka's: the description of the topology, beside the topology (KIP-1331).

Kafka has no record for descriptions: it leaves them to a plug-in outside the log. A tagged field that it does not know
is one that it reads over (KIP-482), in every version that has this record. So the description lives as long as the
group, moves with it to another coordinator, and ends with Kafka's own tombstone. If Kafka writes the record again, the
description is lost, and a member is asked for it again.
"""

from __future__ import annotations

from typing import Final

from kpywire.group_records.streams_group_topology import Subtopology
from kpywire.schema import field, i32, message

DESCRIPTION_TAG: Final = 0x6B70_7962
"""The tag of the field. Kafka numbers its own from 0 on; this number spells kpyb."""


@message(key=23, versions="0", flexible="0+")
class DescribedTopologyValue:
    epoch: i32  # The epoch of the topology.
    subtopologies: list[Subtopology]  # The sub-topologies of the streams application.
    # A StreamsGroupTopologyDescriptionUpdate request of version 0, without the names of the group and the member.
    description: bytes | None = field(tag=DESCRIPTION_TAG, default=None)
