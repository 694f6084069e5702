"""All that a shard knows of one group id: its offsets, its last record, and its members once somebody asks."""

from kpybroker.groups.classic_group import ClassicGroup
from kpybroker.groups.committed import Committed, unpack
from kpybroker.groups.foreign import ForeignGroup
from kpywire.group_records.group_metadata import GroupMetadataValue


class Group:
    """Durable: ``offsets``, ``pending``, ``recorded``, ``foreign``, all of it changed by records only.

    ``classic`` is soft: made of ``recorded`` when first needed, and ahead of it while members join.
    """

    __slots__ = ("classic", "foreign", "group_id", "is_new", "offsets", "pending", "recorded")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets: dict[str, dict[int, bytes]] = {}
        """By topic and partition, packed."""
        self.pending: dict[tuple[str, int], dict[int, bytes]] = {}
        """What open transactions will commit: by (topic, partition), then by producer id."""
        self.recorded: GroupMetadataValue | None = None
        self.foreign: ForeignGroup | None = None
        self.classic: ClassicGroup | None = None
        self.is_new = False
        """Made for a member that joins; the record that says so is not in the log yet."""

    def committed(self, topic: str, partition: int) -> Committed | None:
        """The position that is committed for a partition."""
        partitions = self.offsets.get(topic)
        packed = None if partitions is None else partitions.get(partition)
        return None if packed is None else unpack(packed)

    def forget_offset(self, topic: str, partition: int) -> None:
        """Drop a partition's position."""
        partitions = self.offsets.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.offsets[topic]

    @property
    def size(self) -> int:
        """How much there is to look at."""
        members = 0 if self.recorded is None else len(self.recorded.members)
        return 1 + members + sum(map(len, self.offsets.values()))

    @property
    def is_unknown(self) -> bool:
        """Whether nothing durable is left of it."""
        return not (self.offsets or self.pending or self.recorded or self.foreign)
