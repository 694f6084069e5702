"""The feature ``kraft.version``: the one that the quorum keeps, in control records between those of the metadata.

Not here: when it may be raised; that is `kpybroker.raft.version_upgrade`.
"""

from collections.abc import Callable
from typing import Protocol

from kpybroker.controller.quorum_shell import QuorumShell
from kpybroker.errors import KafkaError
from kpybroker.raft.errors import CannotUpgrade, NotLeader
from kpywire import error_codes


class KRaftVersion(Protocol):
    """What a controller sees of it (Kafka's ``KRaftVersionAccessor``)."""

    @property
    def level(self) -> int:
        """The finalised level."""

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """Raise it in the quorum's log, or only say whether that could be; raises KafkaError."""


class QuorumsVersion:
    """That of this node's quorum."""

    def __init__(self, shell: QuorumShell, now_ms: Callable[[], int]) -> None:
        self._shell = shell
        self._now_ms = now_ms

    @property
    def level(self) -> int:
        """The finalised level."""
        return self._shell.quorum.history.kraft_version

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """As in `KRaftVersion`."""
        try:
            self._shell.quorum.upgrade_kraft_version(level, self._now_ms(), validate_only=validate_only)
        except CannotUpgrade as error:
            raise KafkaError(error_codes.INVALID_UPDATE_VERSION, str(error)) from None
        except NotLeader:
            raise KafkaError(error_codes.NOT_CONTROLLER) from None
