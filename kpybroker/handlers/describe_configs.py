"""DescribeConfigs (32), versions 1-4: what is configured where, and what it means.

- Topics, brokers (an empty name is the cluster-wide default), loggers, groups and client metrics subscriptions; each
  with the source of its value and its synonyms (KIP-226), v3: type and documentation (KIP-569).
"""

from collections.abc import Generator

from kpybroker.config.describe import respond
from kpybroker.config.view import BrokerView
from kpybroker.handlers.context import Call, Context
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse


def handle(
    broker: Context, request: DescribeConfigsRequest, _call: Call
) -> Generator[None, None, DescribeConfigsResponse]:
    """Answer each resource."""
    return (yield from respond(request, BrokerView(broker)))
