"""The table of the changes that the console makes. Each has an address, and the same one under ``/api``."""

from typing import Final

from kpybroker.monitoring.console.answers.cluster_changes import cancel_move, elect, remove_throttle, unregister
from kpybroker.monitoring.console.answers.producing import produce
from kpybroker.monitoring.console.answers.quorum import set_level
from kpybroker.monitoring.console.answers.records import cancel, more, search
from kpybroker.monitoring.console.answers.topics import configure, create
from kpybroker.monitoring.console.answers.transactions import abort
from kpybroker.monitoring.console.page import PARTITION, Action, Parameter

ACTIONS: Final = (
    Action(
        "/topics",
        "Create a topic",
        create,
        (
            Parameter("name", "The name", is_needed=True),
            Parameter("partitions", "How many; the broker's default without it", "integer"),
            Parameter("replication_factor", "Replicas of each; the broker's default without it", "integer"),
            Parameter("configs", "Configs by name, or lines name=value", "object"),
        ),
        shown_on="/topics",
    ),
    Action(
        "/topics/{topic}/configs",
        "Set a config of a topic; without a value it is removed",
        configure,
        (Parameter("name", "The config", is_needed=True), Parameter("value", "Its value")),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/searches",
        "Begin a search",
        search,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("text", "What records have to contain", is_needed=True),
            Parameter("kind", "text, regex (RE2) or hex"),
            Parameter("where", "any, key, value or header"),
            Parameter("ignore_case", "Whether capitals count as small letters", "boolean"),
            PARTITION,
            Parameter("since", "The time of the first record, as in /records"),
        ),
        is_change=False,
        shown_on="/records",
        kept=("topic",),
    ),
    Action(
        "/topics/{topic}/records",
        "Produce a record",
        produce,
        (
            Parameter("key", "The key; null if it is empty"),
            Parameter("value", "The value; null without it"),
            Parameter("headers", "Lines name=value"),
            Parameter("partition", "The number of the partition; by the key without it", "integer"),
        ),
        shown_on="/records",
        kept=("topic",),
    ),
    Action(
        "/transactions/abort",
        "Abort an open transaction, and fence its producer",
        abort,
        (Parameter("transactional_id", "The transactional id", is_needed=True),),
        shown_on="/transactions",
    ),
    Action(
        "/features",
        "Raise the level of a feature, or lower it",
        set_level,
        (
            Parameter("feature", "The feature", is_needed=True),
            Parameter("level", "Its level", "integer", is_needed=True),
            Parameter("lower", "Whether it may become lower", "boolean"),
        ),
        shown_on="/quorum",
    ),
    Action(
        "/brokers/unregister",
        "Let the cluster forget a broker that will not come back",
        unregister,
        (
            Parameter("broker", "The id of the broker", "integer", is_needed=True),
            Parameter("typed", "The id again, to confirm it", is_needed=True),
        ),
        shown_on="/",
    ),
    Action(
        "/elections",
        "Elect leaders of one partition, or of all that need it",
        elect,
        (
            Parameter("topic", "The topic; all without it"),
            Parameter("partition", "The number of the partition; all without it", "integer"),
            Parameter("kind", "preferred or unclean"),
            Parameter("typed", "The word unclean, to confirm an unclean election"),
        ),
        shown_on="/",
    ),
    Action(
        "/moves/cancel",
        "Cancel the move of a partition to other brokers",
        cancel_move,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("partition", "The number of the partition", "integer", is_needed=True),
        ),
        shown_on="/",
    ),
    Action(
        "/throttles/remove",
        "Remove a config that slows replication down",
        remove_throttle,
        (
            Parameter("kind", "broker or topic", is_needed=True),
            Parameter("name", "The id of the broker, empty for all brokers; or the topic"),
            Parameter("config", "The config", is_needed=True),
        ),
        shown_on="/",
    ),
    Action("/searches/{search}/more", "Go on behind a search that has found enough", more, (), is_change=False),
    Action("/searches/{search}/cancel", "Cancel a search", cancel, (), is_change=False),
)
