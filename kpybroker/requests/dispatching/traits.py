"""The traits of Kafka's requests: the facts that the server needs before it decodes a request.

They are columns of the table of APIs (`kpybroker.machines.apis`), by API key.
"""

from typing import Final

from kpybroker.machines.apis import APIS
from kpybroker.runtime.fairness.trait import Trait
from kpywire import api

TRAITS: Final = {key: Trait() for key in api.API_KEYS} | {
    key: served.trait for key, served in APIS.items() if served.trait is not None
}
"""The trait of each API key."""
REPEATED: Final = frozenset(key for key, served in APIS.items() if served.is_repeated)
"""The requests that clients repeat byte for byte for as long as nothing changes."""
ANSWERED_ALIKE: Final = frozenset(key for key, served in APIS.items() if served.is_answered_alike)
"""The requests that change, but whose answers a client gets again for as long as they succeed."""
MOST_OBJECT_BYTES: Final = {
    key: served.most_object_bytes for key, served in APIS.items() if served.most_object_bytes is not None
}
"""The memory that the elements of a request may take, where it is less than usual."""
