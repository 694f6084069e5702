"""DescribeConfigs (32), versions 1-4: what is configured where, and what it means.

- Topics, brokers (an empty name is the cluster-wide default), loggers, groups and client metrics subscriptions; each
  with the source of its value and its synonyms (KIP-226), v3: type and documentation (KIP-569).
"""

import logging
from collections.abc import Mapping

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.describe import respond
from kpybroker.handlers.context import Call, Context
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

ROOT_LOGGER = "root"
LOGGERS = "kpybroker"


def handle(broker: Context, request: DescribeConfigsRequest, _call: Call) -> DescribeConfigsResponse:
    """Answer each resource."""
    return respond(request, _Known(broker))


class _Known:
    """The broker as `kpybroker.config.describe` looks at it."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker

    @property
    def config(self) -> BrokerConfig:
        return self._broker.config

    def has_topic(self, name: str) -> bool:
        return name in self._broker.image.topics

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        return self._broker.image.configs_of(resource_type, name)

    def logger_levels(self) -> Mapping[str, str]:
        known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == LOGGERS]
        levels = {name: logging.getLevelName(logging.getLogger(name).getEffectiveLevel()) for name in sorted(known)}
        return {ROOT_LOGGER: logging.getLevelName(logging.root.level), **levels}
