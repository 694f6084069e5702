"""The voters: the voter sets that the log's control records name, each valid from an offset on (KIP-853).

``kraft.version`` 0 takes the voters from the configuration, for ever; ``kraft.version`` 1 writes them into the log.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kpywire.messages import voters_record
from kpywire.uuid import ZERO_UUID

SUPPORTED_KRAFT_VERSIONS = (0, 1)
BOOTSTRAP_OFFSET = -1


class VoterEndpoint(NamedTuple):
    """An address where a voter listens for the other voters."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """One voter. The id of its directory distinguishes it from one that lost its disk; zero with ``kraft.version``
    0."""

    id: int
    directory_id: bytes = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = SUPPORTED_KRAFT_VERSIONS


Voters = Mapping[int, Voter]


def voter_set(voters: Iterable[Voter]) -> Voters:
    """Voters by their ids."""
    return {voter.id: voter for voter in voters}


def to_record(voters: Voters) -> voters_record.VotersRecord:
    """The KRAFT_VOTERS control record that names these voters."""
    return voters_record.VotersRecord(
        version=0,
        voters=[
            voters_record.Voter(
                voter_id=voter.id,
                voter_directory_id=voter.directory_id,
                endpoints=[
                    voters_record.Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints
                ],
                kraft_version_feature=voters_record.KRaftVersionFeature(
                    min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                ),
            )
            for voter in voters.values()
        ],
    )


def from_record(record: voters_record.VotersRecord) -> Voters:
    """The voters that a KRAFT_VOTERS control record names."""
    return voter_set(
        Voter(
            voter.voter_id,
            voter.voter_directory_id,
            tuple(VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
            (voter.kraft_version_feature.min_supported_version, voter.kraft_version_feature.max_supported_version),
        )
        for voter in record.voters
    )


class VoterHistory:
    """The voters and ``kraft.version`` from the control records of snapshot and log, by offset. The last entry counts,
    committed or not."""

    def __init__(self, static_voters: Sequence[Voter] = ()) -> None:
        self._static = voter_set(static_voters)
        self._voters: list[tuple[int, Voters]] = []
        self._kraft_versions: list[tuple[int, int]] = []

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``."""
        return self._kraft_versions[-1][1] if self._kraft_versions else 0

    @property
    def voters(self) -> Voters:
        """The voters now."""
        return self._voters[-1][1] if self._voters else self._static

    @property
    def voters_offset(self) -> int | None:
        """The offset of the voters' record; BOOTSTRAP_OFFSET in the snapshot of ``format``; None for configured
        voters."""
        return self._voters[-1][0] if self._voters else None

    def add_voters(self, offset: int, voters: Voters) -> None:
        """Add the voters of a KRAFT_VOTERS record that was read or written."""
        self._voters.append((offset, voters))

    def add_kraft_version(self, offset: int, version: int) -> None:
        """Add the level of a KRAFT_VERSION record that was read or written."""
        self._kraft_versions.append((offset, version))

    def as_of(self, offset: int) -> "VoterHistory":
        """The history according to the records below ``offset``."""
        history = VoterHistory(list(self._static.values()))
        history._voters = [entry for entry in self._voters if entry[0] < offset]
        history._kraft_versions = [entry for entry in self._kraft_versions if entry[0] < offset]
        return history

    def replace_by(self, other: "VoterHistory") -> None:
        """Replace the history because a snapshot replaced the log; the configured voters stay."""
        self._voters = list(other._voters)
        self._kraft_versions = list(other._kraft_versions)

    def truncate_to(self, offset: int) -> None:
        """Forget the records from ``offset`` on, which the log has lost."""
        self._voters = [entry for entry in self._voters if entry[0] < offset]
        self._kraft_versions = [entry for entry in self._kraft_versions if entry[0] < offset]
