"""The traits of Kafka's requests: the facts that the server needs before it decodes a request."""

from typing import Final

from kpybroker.fairness.trait import Trait
from kpywire import api

TRAITS: Final = {key: Trait() for key in api.API_KEYS} | {
    api.PRODUCE: Trait(overlaps=True, is_whole=True),
    api.FETCH: Trait(is_whole=True),
    api.END_TXN: Trait(goes_first=True),
}
"""The trait of each API key."""
