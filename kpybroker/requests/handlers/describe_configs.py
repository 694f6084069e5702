"""DescribeConfigs (32), versions 1-4: the configuration of resources, and its meaning.

- Resources are topics, brokers (an empty name is the cluster-wide default), loggers, groups and client metrics
  subscriptions. Each config has the source of its value and its synonyms (KIP-226), from v3 its type and
  documentation (KIP-569).
"""

from collections.abc import Generator

from kpybroker.config.describe import respond
from kpybroker.config.view import BrokerView
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse


def handle(
    broker: Context, request: DescribeConfigsRequest, _call: Call
) -> Generator[None, None, DescribeConfigsResponse]:
    """Answer each resource."""
    return (yield from respond(request, BrokerView(broker)))
