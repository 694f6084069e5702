"""Broker configs that Kafka does not have: their names begin with ``kpybroker.``.

They are read from the same places as Kafka's, and shown by DescribeConfigs only when they are set.
"""

from typing import Final

from kpybroker.config.definition import LOW, STRING, ConfigKey, Definitions, define
from kpybroker.config.validators import HostAndPort

OWN_CONFIGS: Definitions = define([ConfigKey("kpybroker.http.listener", STRING, "127.0.0.1:9404", LOW, HostAndPort())])

OWN_DOCUMENTATION: Final = {
    "kpybroker.http.listener": (
        "Where /metrics, /live and /ready are served over HTTP; nowhere if it is empty. When it is not set and the "
        "port is taken, the node runs without."
    )
}
