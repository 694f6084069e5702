"""The traits of Kafka's requests: the facts that the server needs before it decodes a request."""

from typing import Final

from kpybroker.runtime.fairness.trait import Trait
from kpywire import api

TRAITS: Final = {key: Trait() for key in api.API_KEYS} | {
    api.PRODUCE: Trait(overlaps=True, is_whole=True),
    api.FETCH: Trait(is_whole=True),
    api.END_TXN: Trait(goes_first=True),
    api.API_VERSIONS: Trait(is_greeting=True),
}
"""The trait of each API key."""

REPEATED: Final = frozenset(
    {api.HEARTBEAT, api.CONSUMER_GROUP_HEARTBEAT, api.SHARE_GROUP_HEARTBEAT, api.STREAMS_GROUP_HEARTBEAT}
)
"""The requests that clients repeat byte for byte for as long as nothing changes."""
ANSWERED_ALIKE: Final = frozenset({api.OFFSET_COMMIT})
"""The requests that change, but whose answers a client gets again for as long as they succeed."""

_FEW = (
    api.ADD_RAFT_VOTER, api.API_VERSIONS, api.BEGIN_QUORUM_EPOCH, api.BROKER_HEARTBEAT, api.BROKER_REGISTRATION,
    api.CONTROLLER_REGISTRATION, api.CREATE_DELEGATION_TOKEN, api.DESCRIBE_CLIENT_QUOTAS, api.DESCRIBE_DELEGATION_TOKEN,
    api.DESCRIBE_QUORUM, api.END_QUORUM_EPOCH, api.FETCH_SNAPSHOT, api.LIST_CONFIG_RESOURCES, api.LIST_GROUPS,
    api.LIST_TRANSACTIONS, api.UPDATE_FEATURES, api.VOTE,
)  # fmt: skip
_THOUSAND = (
    api.ALTER_CLIENT_QUOTAS, api.ALTER_SHARE_GROUP_OFFSETS, api.DELETE_SHARE_GROUP_OFFSETS, api.SHARE_ACKNOWLEDGE,
    api.SHARE_FETCH, api.SHARE_GROUP_HEARTBEAT, api.STREAMS_GROUP_HEARTBEAT,
    api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, api.WRITE_TXN_MARKERS,
)  # fmt: skip
_THOUSANDS = (
    api.ALTER_USER_SCRAM_CREDENTIALS, api.DESCRIBE_USER_SCRAM_CREDENTIALS, api.LEAVE_GROUP, api.OFFSET_DELETE,
)  # fmt: skip
_TEN_THOUSAND = (
    api.ADD_PARTITIONS_TO_TXN, api.CONSUMER_GROUP_HEARTBEAT, api.CREATE_PARTITIONS, api.DELETE_SHARE_GROUP_STATE,
    api.DESCRIBE_SHARE_GROUP_OFFSETS, api.INITIALIZE_SHARE_GROUP_STATE, api.JOIN_GROUP, api.OFFSET_COMMIT,
    api.OFFSET_FETCH, api.READ_SHARE_GROUP_STATE, api.READ_SHARE_GROUP_STATE_SUMMARY, api.SYNC_GROUP,
    api.WRITE_SHARE_GROUP_STATE,
)  # fmt: skip
MOST_OBJECT_BYTES: Final = {
    **dict.fromkeys(api.API_KEYS, 1 << 25),
    **dict.fromkeys(_FEW, 1 << 19), **dict.fromkeys(_THOUSAND, 1 << 20),
    **dict.fromkeys(_THOUSANDS, 1 << 21), **dict.fromkeys(_TEN_THOUSAND, 1 << 22),
    api.CREATE_ACLS: 1 << 24, api.DELETE_ACLS: 1 << 24,
}  # fmt: skip
"""The memory that the elements of a request may take, by API key; Produce and Fetch have codecs with bounds of their
own. It is less than usual where something of the request is decided at once.
These are for the partitions of a quorum, for thousands of users, or for ten thousand topics, members or ACLs."""
