"""The requests about classic groups that are not messages of the protocol."""

from typing import NamedTuple


class DescribeGroup(NamedTuple):
    """Describe one group. It is answered by a ``DescribedGroup``."""

    group_id: str
