"""The assignors of the coordinator: pure functions from members and topics to a target for each member."""

from collections.abc import Callable, Mapping

from kpybroker.machines.groups.consumer.assignors.group_spec import Assignment, GroupSpec, PartitionAssignorFailed
from kpybroker.machines.groups.consumer.assignors.range_assignor import assign_ranges
from kpybroker.machines.groups.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Callable[[GroupSpec], Assignment]] = {"range": assign_ranges, "uniform": assign_uniformly}
"""By the names that members may ask for (``group.consumer.assignors``)."""

__all__ = ["ASSIGNORS", "Assignment", "GroupSpec", "PartitionAssignorFailed"]
