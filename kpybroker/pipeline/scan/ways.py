"""The ways around the brokers that a plan finds for its ranges: copies in the store, and files that are lent.

What neither has, tasks read by Fetch. Not here: the reading itself (`kpybroker.pipeline.scan.connecting` makes the
transports).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.machines.scan.options import AUTO, ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange, Spot
from kpybroker.pipeline.scan.borrowing import Borrowed

if TYPE_CHECKING:
    from kpybroker.pipeline.tiers.copied import CopiedPartitions
    from kpybroker.pipeline.tiers.metadata import TierMetadata


class ScanWays(NamedTuple):
    """The ways of a plan. It can be pickled, whole or in part."""

    lent: Borrowed | None = None
    copied: "CopiedPartitions | None" = None

    def only(self, parts: Iterable[OffsetRange]) -> "ScanWays":
        """The part of it that a task with these ranges needs."""
        ranges = list(parts)
        lent = None if self.lent is None else self.lent.only(ranges)
        return ScanWays(lent, None if self.copied is None else self.copied.only(ranges))

    def sizes(self, offset_bytes: Mapping[Spot, float]) -> Mapping[Spot, float]:
        """The mean sizes of offsets, where the store knows better than the disks of brokers."""
        return {**offset_bytes, **({} if self.copied is None else self.copied.offset_bytes())}

    def end(self) -> None:
        """Give everything back that is lent."""
        if self.lent is not None:
            self.lent.end()


NO_WAYS: Final = ScanWays()


class WayPlanner:
    """Finds ways, plan after plan. It keeps what it has read of the metadata of the store."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._metadata: TierMetadata | None = None

    def ways(self, client: Client, parts: Sequence[OffsetRange], offset_bytes: Mapping[Spot, float]) -> ScanWays:
        """The ways for a plan. Raises ScanError, and with ``transport=objects`` KafkaError and Unreachable."""
        from kpybroker.pipeline.scan.lent_files import borrowed  # what tasks do not need

        copied = self._copied(client, parts) if self._options.reads_store and parts else None
        rest = parts if copied is None else copied.rest(parts)
        return ScanWays(borrowed(self._options, client, rest, offset_bytes), copied)

    def _copied(self, client: Client, parts: Sequence[OffsetRange]) -> "CopiedPartitions | None":
        """The copies that hold the ranges; None where that fails and was not demanded."""
        options = self._options
        from kpybroker.pipeline.tiers.metadata import TierMetadata, copied  # what few scans need
        from kpybroker.pipeline.tiers.stores import BadStore, store_of

        try:
            store_of(options.store)
        except BadStore as error:
            raise BadOption(str(error)) from None
        if self._metadata is None:
            self._metadata = TierMetadata()
        is_auto, committed_only = options.transport == AUTO, options.wanted.committed_only
        try:
            return copied(client, self._metadata, parts, only_remote=is_auto, committed_only=committed_only)
        except (ScanError, KafkaError, Unreachable):
            if not is_auto:
                raise
            return None
