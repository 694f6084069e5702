"""UpdateFeatures (57), versions 0-2: raise or lower the finalised level of a feature (KIP-584, KIP-778).

- All updates of a request take effect, or none. v1 adds downgrades, and trying without doing; v0's own flag for a
  downgrade is not looked at, as in Kafka. From v2 only the outcome of the whole request is answered.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.update_features import UpdateFeaturesRequest


def handle(broker: Context, request: UpdateFeaturesRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.features`."""
    return forward(broker, request, call)
