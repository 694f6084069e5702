"""The feature ``kraft.version`` of this node's quorum, kept in its log (`kpybroker.machines.raft.version_upgrade`)."""

from collections.abc import Callable

from kpybroker.hosts.quorum.shell import QuorumShell
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.raft.errors import CannotUpgrade, NotLeader
from kpywire import error_codes


class QuorumsVersion:
    """The level in the quorum's log; a `kpybroker.machines.controller.kraft_version.KRaftVersion`."""

    def __init__(self, shell: QuorumShell, now_ms: Callable[[], int]) -> None:
        self._shell = shell
        self._now_ms = now_ms

    @property
    def level(self) -> int:
        """The finalised level."""
        return self._shell.quorum.history.kraft_version

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """Raise it in the quorum's log, or only check whether that would work. Raises KafkaError."""
        try:
            self._shell.quorum.upgrade_kraft_version(level, self._now_ms(), validate_only=validate_only)
        except CannotUpgrade as error:
            raise KafkaError(error_codes.INVALID_UPDATE_VERSION, str(error)) from None
        except NotLeader:
            raise KafkaError(error_codes.NOT_CONTROLLER) from None
