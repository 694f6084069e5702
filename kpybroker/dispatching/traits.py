"""The traits of Kafka's requests: the facts that the server needs before it decodes a request."""

from typing import Final

from kpybroker.fairness.trait import Trait
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
