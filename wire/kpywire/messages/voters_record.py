"""VotersRecord."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct, u16, uuid


@struct
class Endpoint:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.


@struct
class KRaftVersionFeature:
    min_supported_version: i16  # The minimum supported KRaft protocol version.
    max_supported_version: i16  # The maximum supported KRaft protocol version.


@struct
class Voter:
    voter_id: i32  # The replica id of the voter in the topic partition.
    voter_directory_id: uuid  # The directory id of the voter in the topic partition.
    endpoints: list[Endpoint]  # The endpoint that can be used to communicate with the voter.
    kraft_version_feature: KRaftVersionFeature  # The range of versions of the protocol that the replica supports.


@message(versions="0", flexible="0+")
class VotersRecord:
    version: i16  # The version of the voters record.
    voters: list[Voter]  # The set of voters in the quorum for this epoch.
