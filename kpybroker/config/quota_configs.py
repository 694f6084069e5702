"""Broker configs that Kafka takes from dynamic updates only, never from a file.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""

from kpybroker.config.validators import at_least
from kpybroker.machines.config_def import CLUSTER_WIDE, LONG, LONG_MAX, MEDIUM, ConfigKey, Definitions, define

QUOTA_CONFIGS: Definitions = define(
    (
        ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, at_least(0), update=CLUSTER_WIDE),
        ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, at_least(0), update=CLUSTER_WIDE),
        ConfigKey(
            "replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM, at_least(0), update=CLUSTER_WIDE
        ),
    )
)
