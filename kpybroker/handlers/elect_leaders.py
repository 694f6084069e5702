"""ElectLeaders (43), versions 0-2: preferred leaders, or any leader for partitions without one (KIP-183, KIP-460).

- v0 elects preferred leaders only. Null partitions means all of them; then those that need no election are left out.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.elect_leaders import ElectLeadersRequest


def handle(broker: Context, request: ElectLeadersRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.partitions`."""
    return forward(broker, request, call)
